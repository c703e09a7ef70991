// SPDX-License-Identifier: MIT
// tests/tools/attention_check_test.cc — the judge of attention passes what is right and nothing else.
#include "tools/attention_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/matrix.h"

namespace mk::test {
namespace {

using tools::AttentionTensor;
using tools::AttentionValues;
using tools::DataKind;
using tools::KeyRange;

// What an operator may do wrong.  Positions are those of keys.
struct Mistake {
  const char* name = "none";
  bool shows_in_uniform_data = true;
  int64_t more_before = 0, more_after = 0;  // keys that each query sees beyond its own
  bool loses_a_key = false;                 // one in the middle: nobody sees it
  int64_t kv_heads_on = 0;
  int64_t batches_on = 0;
  double scale = 1;  // of what it should be
  int sinks = 1;     // how often it takes part
  int64_t keys_launches_ago = 0, values_launches_ago = 0;
  int64_t values_on = 0;                // positions
  int64_t positions_of_queries_on = 0;  // for the mask
};

// Values of a few keys more or fewer are lost in what rounding of sums of many may do.
const Mistake kMistakes[] = {
    {.name = "the last key left out", .shows_in_uniform_data = false, .more_after = -1},
    {.name = "the first key left out", .shows_in_uniform_data = false, .more_before = -1},
    {.name = "a key too many at the end", .shows_in_uniform_data = false, .more_after = 1},
    {.name = "a key too many at the beginning", .shows_in_uniform_data = false, .more_before = 1},
    {.name = "a key that nobody sees", .shows_in_uniform_data = false, .loses_a_key = true},
    {.name = "positions off by one", .shows_in_uniform_data = false, .positions_of_queries_on = 1},
    {.name = "another key head", .kv_heads_on = 1},
    {.name = "another sequence of the batch", .batches_on = 1},
    {.name = "one per cent off the scale", .scale = 1.01},
    {.name = "the scale of another dim", .scale = 1.4},
    {.name = "no sink", .sinks = 0},
    {.name = "the sink twice", .sinks = 2},
    {.name = "keys of a launch before", .keys_launches_ago = 2},
    {.name = "values of a launch before", .values_launches_ago = 2},
    {.name = "values of the next row", .values_on = 1},
    {.name = "values of the next rank", .values_on = 32},
};

struct Case {
  const char* name;
  int64_t seq;
  int ranks;
  int64_t dim;
  DType dtype;
  AttentionMask mask;
  SequenceOrder order;
};

const Case kCases[] = {
    {"small_bf16", 128, 4, 16, DType::kBf16, {MaskKind::kCausal, 40}, SequenceOrder::kZigzag},
    {"small_fp32", 128, 4, 16, DType::kFp32, {MaskKind::kCausal, 40}, SequenceOrder::kContiguous},
    {"longer_fp16", 512, 16, 32, DType::kFp16, {MaskKind::kCausal, 200}, SequenceOrder::kZigzag},
};
void PrintTo(const Case& at, std::ostream* out) { *out << at.name; }

float rounded(float value, DType dtype) {
  if (dtype == DType::kFp32) return value;
  return dtype == DType::kBf16 ? to_float(from_float<Bf16>(value)) : to_float(from_float<Fp16>(value));
}

// The last rank of a small world, as an operator in fp32 does it: 32 keys at a time, weights rounded to the type.
class AttentionCheck : public testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kHeads = 4, kKvHeads = 2, kBatches = 2;

  struct RowState {
    float maximum = -std::numeric_limits<float>::infinity();
    float sum = 0;
    std::vector<float> results;

    float weigh(float score) {
      const float most = std::max(maximum, score);
      const float old = std::exp(maximum - most);
      maximum = most;
      sum *= old;
      for (float& result : results) result *= old;
      const float weight = std::exp(score - most);
      sum += weight;
      return weight;
    }
  };

  AttentionValues values_of(uint64_t launch) const {
    const tools::AttentionSize size{kBatches, at.seq, kHeads, kKvHeads, at.dim, scale, at.mask};
    return tools::attention_values_for(size, 1, launch);
  }

  // A tensor of the positions that `shard` has, or of the whole sequence.
  std::vector<float> made(AttentionTensor which, int64_t heads, const AttentionValues& values,
                          const tools::Shard& shard, int64_t batch) {
    Matrix matrix(at.dtype, shard.rows, heads * at.dim);
    checker->fill({matrix.view().data, at.dtype, 1, shard.rows, heads, at.dim}, which, values, shard, batch);
    return matrix.values();
  }

  void run(uint64_t launch, const Mistake& mistake) {
    const tools::Shard all{.rows = at.seq};
    q = made(AttentionTensor::kQueries, kHeads, values_of(launch), shard, 0);
    k = made(AttentionTensor::kKeys, kKvHeads, values_of(launch - mistake.keys_launches_ago), all, mistake.batches_on);
    v = made(AttentionTensor::kValues, kKvHeads, values_of(launch - mistake.values_launches_ago), all,
             mistake.batches_on);
    for (int64_t row = 0; row < shard.rows; ++row) {
      for (int64_t head = 0; head < kHeads; ++head) attend(values_of(launch), mistake, row, head);
    }
  }

  void attend(const AttentionValues& values, const Mistake& mistake, int64_t row, int64_t head) {
    const int64_t position = shard.position_of(row) + mistake.positions_of_queries_on;
    KeyRange seen = tools::CheckedAttention{values, shard, at.mask.kind}.seen_keys(position);
    seen.first = std::max<int64_t>(0, seen.first - mistake.more_before);
    seen.end = std::min(at.seq, seen.end + mistake.more_after);
    const int64_t kv_head = (head / (kHeads / kKvHeads) + mistake.kv_heads_on) % kKvHeads;
    RowState state;
    state.results.assign(at.dim, 0);
    for (int64_t key = seen.first; key < seen.end; ++key) {
      if (mistake.loses_a_key && key == shard.position_of(shard.rows / 3)) continue;
      float score = 0;
      for (int64_t d = 0; d < at.dim; ++d) {
        score += q[(row * kHeads + head) * at.dim + d] * k[(key * kKvHeads + kv_head) * at.dim + d];
      }
      const float weight = rounded(state.weigh(score * scale * static_cast<float>(mistake.scale)), at.dtype);
      const int64_t value = (key + mistake.values_on) % at.seq;
      for (int64_t d = 0; d < at.dim; ++d) {
        state.results[d] += weight * v[(value * kKvHeads + kv_head) * at.dim + d];
      }
    }
    for (int i = 0; i < mistake.sinks; ++i) state.weigh(tools::sink_value(values, head));
    for (int64_t d = 0; d < at.dim; ++d) o.set(row, head * at.dim + d, state.results[d] / state.sum);
    lse[head * shard.rows + row] = state.maximum + std::log(state.sum);
  }

  tools::AttentionTally check(uint64_t launch) {
    const tools::CheckedAttention checked{values_of(launch), shard, at.mask.kind, scale, tools::SinkUse::kGiven};
    return checker->check(checked, {o.view().data, at.dtype, 1, shard.rows, kHeads, at.dim}, lse.data());
  }

  const Case at = GetParam();
  const float scale = tools::scale_or_default({}, at.dim);
  const tools::Shard shard{at.order, at.ranks, at.ranks - 1, at.seq / at.ranks};
  const std::unique_ptr<tools::AttentionChecker> checker = tools::make_cpu_attention_checker();
  std::vector<float> q, k, v;
  Matrix o{at.dtype, shard.rows, kHeads* at.dim};
  std::vector<float> lse = std::vector<float>(kHeads * shard.rows);
};
INSTANTIATE_TEST_SUITE_P(Cases, AttentionCheck, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// Launches of both kinds of data.
constexpr uint64_t kUniformLaunch = 2, kExactLaunch = 3;

TEST_P(AttentionCheck, KindsTakeTurns) {
  EXPECT_EQ(values_of(kUniformLaunch).kind, DataKind::kUniform);
  EXPECT_EQ(values_of(kExactLaunch).kind, DataKind::kExact);
}

TEST_P(AttentionCheck, PassesWhatTheArithmeticGives) {
  for (const uint64_t launch : {kUniformLaunch, kExactLaunch}) {
    run(launch, {});
    const tools::AttentionTally tally = check(launch);
    EXPECT_EQ(tally.o.wrong, 0) << launch;
    EXPECT_EQ(tally.lse.wrong, 0) << launch;
    EXPECT_LT(tools::CheckResult::of(tally.o).bound, 0.1) << "the bound says nothing of o";
    EXPECT_LT(tools::CheckResult::of(tally.lse).bound, 0.01) << "the bound says nothing of lse";
  }
}

TEST_P(AttentionCheck, FindsEveryMistake) {
  for (const Mistake& mistake : kMistakes) {
    run(kExactLaunch, mistake);
    const tools::AttentionTally exact = check(kExactLaunch);
    EXPECT_GT(exact.o.wrong + exact.lse.wrong, 0) << mistake.name;
    if (!mistake.shows_in_uniform_data) continue;
    run(kUniformLaunch, mistake);
    const tools::AttentionTally uniform = check(kUniformLaunch);
    EXPECT_GT(uniform.o.wrong + uniform.lse.wrong, 0) << mistake.name;
  }
}

TEST_P(AttentionCheck, CountsEveryElementThatIsWrong) {
  run(kUniformLaunch, {});
  o.set(0, 0, o.at(0, 0) + 1);
  o.set(shard.rows - 1, kHeads * at.dim - 1, 2);
  lse[shard.rows] += 0.25f;
  EXPECT_EQ(check(kUniformLaunch).o.wrong, 2);
  EXPECT_EQ(check(kUniformLaunch).lse.wrong, 1);
  o.poison();
  std::ranges::fill(lse, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(check(kUniformLaunch).o.wrong, shard.rows * kHeads * at.dim) << "an element nobody wrote is wrong";
  EXPECT_EQ(check(kUniformLaunch).lse.wrong, shard.rows * kHeads);
}

// Scores of different codes are so far apart that fp32's exp is zero.
TEST_P(AttentionCheck, ExactScoresAreAsFarApartAsTheyShouldBe) {
  for (const float of_scores : {tools::kLeastScale, scale, tools::kMostScale}) {
    const tools::AttentionSize size{1, at.seq, kHeads, kKvHeads, at.dim, of_scores, at.mask};
    const AttentionValues values = tools::attention_values_for(size, 1, 1);
    const float a_bit = 2 * values.query_size * values.key_size * of_scores;
    EXPECT_EQ(std::exp(-a_bit), 0.0f);
    EXPECT_LE(std::max(values.query_size, values.key_size), 65504) << "fp16";
    EXPECT_GE(std::min(values.query_size, values.key_size), 0x1p-14f) << "fp16";
  }
}

}  // namespace
}  // namespace mk::test

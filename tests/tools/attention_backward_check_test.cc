// SPDX-License-Identifier: MIT
// tests/tools/attention_backward_check_test.cc — the judge of attention's gradients passes what is right and nothing
// else.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "tests/tools/backward_operator.h"

namespace mk::test {
namespace {

using tools::BackwardTally;
using tools::CheckResult;
using tools::DataKind;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int times(const BackwardPair& at, bool is_it, int how_often) { return is_it ? how_often : at.sees ? 1 : 0; }
// Near the end of the sequence, where the rank is whose results are checked.
bool is_the_key(const BackwardPair& at) { return at.sees && at.key == at.seq - 9; }
bool is_the_query(const BackwardPair& at) { return at.sees && at.query == at.seq - 5; }

// Few terms of many are lost in what rounding of uniform data may do.  In exact data most rows have the same lse.
const BackwardMistake kMistakes[] = {
    {.name = "a key left out",
     .shows_in = "q",
     .shows_in_uniform_data = false,
     .in_dq = [](const BackwardPair& at) { return times(at, is_the_key(at), 0); }},
    {.name = "a key twice",
     .shows_in = "q",
     .shows_in_uniform_data = false,
     .in_dq = [](const BackwardPair& at) { return times(at, is_the_key(at), 2); }},
    {.name = "a query left out",
     .shows_in = "kv",
     .shows_in_uniform_data = false,
     .in_dk = [](const BackwardPair& at) { return times(at, is_the_query(at), 0); }},
    {.name = "a query twice",
     .shows_in = "kv",
     .shows_in_uniform_data = false,
     .in_dk = [](const BackwardPair& at) { return times(at, is_the_query(at), 2); }},
    {.name = "the last key of each query left out",
     .shows_in = "qkv",
     .shows_in_uniform_data = false,
     .in_dq = [](const BackwardPair& at) { return times(at, at.key == at.query, 0); },
     .in_dk = [](const BackwardPair& at) { return times(at, at.key == at.query, 0); }},
    {.name = "the first key of each query left out",
     .shows_in = "qkv",
     .shows_in_uniform_data = false,
     .in_dq = [](const BackwardPair& at) { return times(at, at.key == at.from, 0); },
     .in_dk = [](const BackwardPair& at) { return times(at, at.key == at.from, 0); }},
    {.name = "the key behind is not masked",
     .shows_in = "qkv",
     .in_dq = [](const BackwardPair& at) { return times(at, at.key == at.query + 1, 1); },
     .in_dk = [](const BackwardPair& at) { return times(at, at.key == at.query + 1, 1); }},
    {.name = "the key before the window is not masked",
     .shows_in = "qkv",
     .in_dq = [](const BackwardPair& at) { return times(at, at.key == at.from - 1, 1); },
     .in_dk = [](const BackwardPair& at) { return times(at, at.key == at.from - 1, 1); }},
    {.name = "queries of a rank left out",
     .shows_in = "kv",
     .in_dk = [](const BackwardPair& at) { return times(at, at.query >= at.seq - 8, 0); }},
    {.name = "a head of the group left out",
     .shows_in = "kv",
     .in_dk = [](const BackwardPair& at) { return times(at, at.head % 2 == 1, 0); }},
    {.name = "no delta", .shows_in = "qks", .deltas = 0},
    {.name = "delta with the other sign", .shows_in = "qks", .deltas = -1},
    {.name = "delta of the next row", .shows_in = "qks", .deltas_on = 1},
    {.name = "no scale in dq", .shows_in = "q", .scale_of_dq = 4},
    {.name = "no scale in dk", .shows_in = "k", .scale_of_dk = 4},
    {.name = "the scale twice in dk", .shows_in = "k", .scale_of_dk = 0.25f},
    {.name = "a scale of scores that is three per cent off", .shows_in = "qkv", .scale_of_scores = 1.03f},
    {.name = "the lse of the next row", .shows_in = "qkvs", .shows_in_exact_data = false, .lse_on = 1},
    {.name = "another key head", .shows_in = "qkv", .heads_on = 1},
    {.name = "values of the next row", .shows_in = "qk", .values_on = 1},
    {.name = "gradients of a launch before", .shows_in = "qkvs", .launches_ago = 2},
    {.name = "keys and values of another sequence of the batch", .shows_in = "qkv", .batches_on = 1},
    {.name = "outputs in place of their gradients", .shows_in = "v", .weighs_outputs = true},
    {.name = "dsink with the other sign", .shows_in = "s", .sinks = -1},
    {.name = "dsink of a row less", .shows_in = "s", .shows_in_uniform_data = false, .sink_rows_lost = 1},
};

const BackwardCase kCases[] = {
    {"small_bf16", 64, 2, 16, DType::kBf16, {MaskKind::kCausal, 24}, SequenceOrder::kZigzag},
    {"small_fp32", 64, 4, 16, DType::kFp32, {MaskKind::kCausal, 12}, SequenceOrder::kContiguous},
    {"larger_fp16", 128, 8, 24, DType::kFp16, {MaskKind::kCausal, 60}, SequenceOrder::kZigzag},
};

// Launches of both kinds of data.
constexpr uint64_t kUniformLaunch = 2, kExactLaunch = 3;

class AttentionBackwardCheck : public testing::TestWithParam<BackwardCase> {
 protected:
  BackwardOperator of_last_rows(uint64_t launch) const {
    const bool is_zigzag = GetParam().order == SequenceOrder::kZigzag;
    return BackwardOperator(GetParam(), is_zigzag ? 0 : GetParam().ranks - 1, 1, launch);
  }

  const tools::Tally& named(const BackwardTally& tally, char name) const {
    return name == 'q' ? tally.dq : name == 'k' ? tally.dk : name == 'v' ? tally.dv : tally.dsink;
  }
};
INSTANTIATE_TEST_SUITE_P(Cases, AttentionBackwardCheck, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(AttentionBackwardCheck, KindsTakeTurns) {
  EXPECT_EQ(of_last_rows(kUniformLaunch).values().kind, DataKind::kUniform);
  EXPECT_EQ(of_last_rows(kExactLaunch).values().kind, DataKind::kExact);
}

TEST_P(AttentionBackwardCheck, PassesWhatTheArithmeticGives) {
  for (const uint64_t launch : {kUniformLaunch, kExactLaunch}) {
    BackwardOperator op = of_last_rows(launch);
    op.run();
    const BackwardTally tally = op.check();
    for (const char name : std::string("qkvs")) {
      EXPECT_EQ(named(tally, name).wrong, 0) << launch << " d" << name;
      EXPECT_LT(CheckResult::of(named(tally, name)).bound, 0.1) << "the bound says nothing of d" << name;
      EXPECT_GT(named(tally, name).reference, 0) << launch << " d" << name;
    }
  }
}

TEST_P(AttentionBackwardCheck, FindsEveryMistakeInEachOutputThatShowsIt) {
  for (const uint64_t launch : {kUniformLaunch, kExactLaunch}) {
    BackwardOperator op = of_last_rows(launch);
    for (const BackwardMistake& mistake : kMistakes) {
      if (!(launch == kUniformLaunch ? mistake.shows_in_uniform_data : mistake.shows_in_exact_data)) continue;
      op.run(mistake);
      const BackwardTally tally = op.check();
      for (const char name : mistake.shows_in) {
        EXPECT_GT(named(tally, name).wrong, 0) << mistake.name << ": d" << name << ", launch " << launch;
      }
    }
  }
}

TEST_P(AttentionBackwardCheck, CountsEveryElementThatIsWrong) {
  BackwardOperator op = of_last_rows(kUniformLaunch);
  op.run();
  op.dq().set(0, 0, op.dq().at(0, 0) + 1);
  op.dq().set(op.dq().rows() - 1, op.dq().cols() - 1, 2);
  op.dk().set(3, 1, kNan);
  op.dv().set(0, 1, kNan);
  op.dsink()[1] = kNan;
  const BackwardTally tally = op.check();
  EXPECT_EQ(tally.dq.wrong, 2);
  EXPECT_EQ(tally.dk.wrong, 1);
  EXPECT_EQ(tally.dv.wrong, 1);
  EXPECT_EQ(tally.dsink.wrong, 1);
}

TEST_P(AttentionBackwardCheck, AnElementNobodyWroteIsWrong) {
  BackwardOperator op = of_last_rows(kExactLaunch);
  op.run();
  for (Matrix* one : {&op.dq(), &op.dk(), &op.dv()}) one->poison();
  const BackwardTally tally = op.check();
  EXPECT_EQ(tally.dq.wrong, op.dq().rows() * op.dq().cols());
  EXPECT_EQ(tally.dk.wrong, op.dk().rows() * op.dk().cols());
  EXPECT_EQ(tally.dv.wrong, op.dv().rows() * op.dv().cols());
}

// Whatever an operator sums first, and however it makes exponentials.
TEST(AttentionBackwardJudge, PassesWhatTheArithmeticGivesForEverySeed) {
  std::mt19937_64 random(2026);
  const auto draw = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
  constexpr DType kTypes[] = {DType::kBf16, DType::kFp16, DType::kFp32};
  constexpr float kScales[] = {tools::kLeastScale, 0.02f, 0.3f, 5, tools::kMostScale};
  for (int i = 0; i < 60; ++i) {
    BackwardCase at{.name = "drawn", .ranks = static_cast<int>(draw(3)), .dim = draw(40), .dtype = kTypes[i % 3]};
    at.order = draw(2) == 1 ? SequenceOrder::kZigzag : SequenceOrder::kContiguous;
    at.seq = 2 * at.ranks * draw(i % 10 == 0 ? 100 : 12);
    at.kv_heads = draw(2);
    at.heads = at.kv_heads * draw(3);
    at.batches = draw(2);
    if (draw(2) == 1) at.mask.kind = MaskKind::kCausal;
    if (at.mask.kind == MaskKind::kCausal && draw(2) == 1) at.mask.window = draw(at.seq + 2);
    if (draw(2) == 1) at.scale = kScales[draw(5) - 1];
    BackwardOperator op(at, static_cast<int>(draw(at.ranks)) - 1, random(), random());
    for (const BackwardWay way :
         {BackwardWay::kPlain, BackwardWay::kPowersOfTwo, BackwardWay::kScaledQueries, BackwardWay::kBlocks}) {
      op.run({}, way);
      const BackwardTally tally = op.check();
      EXPECT_EQ(tally.wrong(), 0) << "case " << i << ", way " << static_cast<int>(way) << ": " << tally.dq.wrong
                                  << " of dq, " << tally.dk.wrong << " of dk, " << tally.dv.wrong << " of dv, "
                                  << tally.dsink.wrong << " of dsink";
    }
  }
}

}  // namespace
}  // namespace mk::test

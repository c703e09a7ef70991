// SPDX-License-Identifier: MIT
// tests/tools/layer_backward_check_test.cc — the judge of a layer's gradients passes what is right and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/half.h"
#include "runtime/host_device.h"
#include "tools/layer_backward_checker.h"

namespace mk::test {
namespace {

using tools::BackwardData;
using tools::BackwardOutputs;
using tools::DataKind;
using tools::DataSpec;
using tools::MoePair;

struct Case {
  int64_t hidden;
  int64_t inter;
  int topk;
  int64_t most_rows;
  DType dtype;
};

constexpr Case kCases[] = {{1, 1, 1, 0, DType::kBf16},         {64, 96, 2, 100, DType::kBf16},
                           {4096, 1024, 8, 999, DType::kBf16}, {7168, 2048, 8, 300'000, DType::kFp16},
                           {17, 9, 64, 65, DType::kBf16},      {5, 300, 20, 4096, DType::kFp16},
                           {2048, 3, 6, 1, DType::kBf16},      {64, 96, 2, 50'000, DType::kFp32},
                           {4096, 16384, 1, 7, DType::kFp32}};

// Elements of a column that may not be zero.
int64_t most_in_a_column(const DataSpec& spec, int64_t rows, int64_t cols) {
  int64_t most = 0;
  for (int64_t col = 0; col < std::min<int64_t>(cols, 50); ++col) {
    int64_t count = 0;
    for (int64_t row = 0; row < rows; ++row) count += (row * cols + col) % spec.period == 0 ? 1 : 0;
    most = std::max(most, count);
  }
  return most;
}

TEST(LayerBackwardData, ExactSumsNeverExceedWhatTheTypesHold) {
  for (const Case& at : kCases) {
    const BackwardData data =
        tools::backward_data_for(at.hidden, at.inter, at.topk, at.most_rows, at.dtype, /*seed=*/1, /*launch=*/1);
    ASSERT_EQ(data.x.kind, DataKind::kExact) << at.hidden;
    const int64_t first = most_in_a_column(data.w2, at.hidden, at.inter);
    const int64_t second = most_in_a_column(data.gate, at.inter, at.hidden);
    const int64_t weight = data.weights.magnitude;
    EXPECT_LE(first, data.first_products) << at.hidden;
    EXPECT_LE(second, data.second_products) << at.inter;
    EXPECT_LE(3 * at.topk * weight * first * second, tools::largest_integer(at.dtype)) << at.hidden;
    EXPECT_LE(2 * weight * first * at.most_rows, tools::kLongestExactSum) << at.hidden;
    EXPECT_LE(first * at.inter, tools::kLongestExactSum) << at.hidden;
  }
}

TEST(LayerBackwardData, SoManyRowsThatNoSumIsExactAreUniform) {
  EXPECT_EQ(tools::backward_data_for(64, 64, 2, 10'000'000, DType::kBf16, 1, 1).x.kind, DataKind::kUniform);
}

TEST(LayerBackwardData, ExactGatesHaveExactSlopes) {
  for (const auto& [gate, slope] : {std::pair{-128.0f, 0.0f}, std::pair{0.0f, 0.5f}, std::pair{128.0f, 1.0f}}) {
    const float sigmoid = 1 / (1 + std::exp(-gate));
    EXPECT_EQ(sigmoid * (1 + gate * (1 - sigmoid)), slope);
    EXPECT_EQ(gate * sigmoid, std::max(gate, 0.0f));
  }
}

// What an operator may do wrong.
enum class Mistake {
  kNone,
  kNoWeight,            // in dgate and dup
  kGateAndUpExchanged,  // as they are read
  kStraightSlope,       // silu' without its second term
  kDgateAndDupExchanged,
  kWeightedScore,
  kScoreOfNextSlot,
  kScaledWithoutWeight,
  kRowLost,        // of each expert, the last
  kNeighbourRows,  // an expert's gradients take in a row of the next
  kStaleExpert,    // that has no rows
  kSlotLost,       // of each token, the first
  kNoClamp,
  kSlopesBeyondClamp,
};

struct RowGradients {
  std::vector<float> gate, up, scaled;
  float score = 0;
};

// One node of two ranks, and its gradients as an operator would round them.
class BackwardCheckTest : public testing::TestWithParam<DataKind> {
 protected:
  static constexpr int64_t kTokens = 24, kHidden = 12, kInter = 20;
  static constexpr int kExperts = 8, kTopk = 3, kRanks = 2;

  explicit BackwardCheckTest(float bound = 0) : clamp(bound) {
    const auto matrix = [&](int64_t rows, int64_t cols) { return tools::Matrix(device, DType::kBf16, rows, cols); };
    for (int rank = 0; rank < kRanks; ++rank) {
      x.push_back(matrix(kTokens, kHidden));
      dout.push_back(matrix(kTokens, kHidden));
      engine->fill(x.back().view, tools::of(data.x, rank));
      engine->fill(dout.back().view, tools::of(data.dout, rank));
    }
    for (int expert = 0; expert < kExperts; ++expert) {
      const std::vector<MoePair>& rows = pairs.of_expert(expert);
      w13.push_back(matrix(2 * kInter, kHidden));
      w2.push_back(matrix(kHidden, kInter));
      kept.push_back(matrix(std::max<int64_t>(std::ssize(rows), 1), 2 * kInter));
      tools::fill_expert(*engine, w13.back().view, w2.back().view, data, expert);
      tools::fill_kept(*engine, kept.back().rows(0, std::ssize(rows)), data.kept, rows, kRanks);
    }
  }

  static tools::Row make_row(float clamp) {
    tools::Row row;
    row.k = kHidden;
    row.n = kInter;
    row.seed = 5;
    row.moe = {.tokens = kTokens, .experts = kExperts, .topk = kTopk, .routing = tools::Routing::kZipf, .clamp = clamp};
    return row;
  }

  static Bf16* elements(const tools::Matrix& matrix) { return matrix.memory.as<Bf16>(); }
  static float at(const tools::Matrix& matrix, int64_t row, int64_t col) {
    return to_float(elements(matrix)[row * matrix.view.cols + col]);
  }
  static void set(const tools::Matrix& matrix, int64_t row, int64_t col, float value) {
    elements(matrix)[row * matrix.view.cols + col] = from_float<Bf16>(value);
  }
  static float rounded(float value) { return to_float(from_float<Bf16>(value)); }

  RowGradients gradients_of(int expert, int64_t row, Mistake mistake) const {
    const MoePair& one = pairs.of_expert(expert)[row];
    const DataSpec weights = tools::of(data.weights, one.rank);
    const float weight = value_at(weights, key_of(weights), one.pair);
    RowGradients made;
    for (int64_t i = 0; i < kInter; ++i) {
      float sum = 0;
      for (int64_t h = 0; h < kHidden; ++h) sum += at(dout[one.rank], one.pair / kTopk, h) * at(w2[expert], h, i);
      float gate = at(kept[expert], row, i);
      float up = at(kept[expert], row, kInter + i);
      if (mistake == Mistake::kGateAndUpExchanged) std::swap(gate, up);
      const bool is_bounded = clamp > 0 && mistake != Mistake::kNoClamp;
      const bool has_slopes = !is_bounded || mistake == Mistake::kSlopesBeyondClamp;
      const float gate_slope = has_slopes || gate <= clamp ? 1 : 0;
      const float up_slope = has_slopes || std::fabs(up) <= clamp ? 1 : 0;
      if (is_bounded) {
        gate = std::min(gate, clamp);
        up = std::clamp(up, -clamp, clamp);
      }
      const float sigmoid = 1 / (1 + std::exp(-gate));
      const float silu = gate * sigmoid;
      const float slope = mistake == Mistake::kStraightSlope ? sigmoid : sigmoid * (1 + gate * (1 - sigmoid));
      const float d = mistake == Mistake::kNoWeight ? sum : weight * sum;
      made.gate.push_back(rounded(gate_slope * d * up * slope));
      made.up.push_back(rounded(up_slope * d * silu));
      made.scaled.push_back(rounded(mistake == Mistake::kScaledWithoutWeight ? silu * up : weight * silu * up));
      made.score += (mistake == Mistake::kWeightedScore ? d : sum) * silu * up;
    }
    if (mistake == Mistake::kDgateAndDupExchanged) std::swap(made.gate, made.up);
    return made;
  }

  void add_to_token(const RowGradients& row, int expert, const MoePair& one, Mistake mistake) {
    const int64_t pair = mistake == Mistake::kScoreOfNextSlot && one.pair % kTopk == 0 ? one.pair + 1 : one.pair;
    outputs[one.rank].dtopk_weight.memory.as<float>()[pair] = row.score;
    if (mistake == Mistake::kSlotLost && one.pair % kTopk == 0) return;
    for (int64_t h = 0; h < kHidden; ++h) {
      float sum = 0;
      for (int64_t i = 0; i < kInter; ++i) sum += row.gate[i] * at(w13[expert], i, h);
      for (int64_t i = 0; i < kInter; ++i) sum += row.up[i] * at(w13[expert], kInter + i, h);
      dx_sums[one.rank][one.pair / kTopk * kHidden + h] += rounded(sum);
    }
  }

  void write_weights(int expert, const std::vector<RowGradients>& rows, const std::vector<MoePair>& from) {
    const BackwardOutputs& to = outputs[expert / (kExperts / kRanks)];
    const int64_t local = expert % (kExperts / kRanks);
    for (int64_t i = 0; i < kInter; ++i) {
      for (int64_t h = 0; h < kHidden; ++h) {
        float gate = 0, up = 0, second = 0;
        for (size_t r = 0; r < rows.size(); ++r) {
          const int64_t token = from[r].pair / kTopk;
          gate += rows[r].gate[i] * at(x[from[r].rank], token, h);
          up += rows[r].up[i] * at(x[from[r].rank], token, h);
          second += rows[r].scaled[i] * at(dout[from[r].rank], token, h);
        }
        set(to.dw13, local * 2 * kInter + i, h, gate);
        set(to.dw13, (local * 2 + 1) * kInter + i, h, up);
        set(to.dw2, local * kHidden + h, i, second);
      }
    }
  }

  void write_expert(int expert, Mistake mistake) {
    std::vector<MoePair> from = pairs.of_expert(expert);
    std::vector<RowGradients> rows;
    for (size_t r = 0; r < from.size(); ++r) {
      rows.push_back(gradients_of(expert, static_cast<int64_t>(r), mistake));
      add_to_token(rows.back(), expert, from[r], mistake);
    }
    if (rows.empty() && mistake == Mistake::kStaleExpert) return;
    if (!rows.empty() && mistake == Mistake::kRowLost) rows.pop_back();
    if (const int next = (expert + 1) % kExperts;
        mistake == Mistake::kNeighbourRows && !pairs.of_expert(next).empty()) {
      rows.push_back(gradients_of(next, 0, mistake));
      from.push_back(pairs.of_expert(next)[0]);
    }
    write_weights(expert, rows, from);
  }

  // All outputs of all ranks.
  void write(Mistake mistake) {
    outputs.clear();
    dx_sums.assign(kRanks, std::vector<float>(kTokens * kHidden));
    for (int rank = 0; rank < kRanks; ++rank) {
      const int64_t experts = kExperts / kRanks;
      outputs.push_back({{device, DType::kBf16, kTokens, kHidden},
                         {device, DType::kFp32, kTokens, kTopk},  // zero, as all new memory
                         {device, DType::kBf16, experts * 2 * kInter, kHidden},
                         {device, DType::kBf16, experts * kHidden, kInter}});
      engine->poison(outputs[rank].dw13.view);
      engine->poison(outputs[rank].dw2.view);
    }
    for (int expert = 0; expert < kExperts; ++expert) write_expert(expert, mistake);
    for (int rank = 0; rank < kRanks; ++rank) {
      for (int64_t i = 0; i < kTokens * kHidden; ++i) {
        elements(outputs[rank].dx)[i] = from_float<Bf16>(dx_sums[rank][i]);
      }
    }
  }

  tools::CheckResult check() {
    tools::CheckResult worst;
    for (int rank = 0; rank < kRanks; ++rank) worst.add(checker.check(launch, pairs, rank, outputs[rank]));
    return worst;
  }

  const float clamp;  // 0: none
  const int launch = GetParam() == DataKind::kUniform ? 0 : 1;
  const WorldShape world{1, kRanks};
  const tools::Row row = make_row(clamp);
  const tools::MoePairs pairs{world, *row.moe, row.seed, launch, DeviceKind::kCpu};
  const BackwardData data = tools::backward_data_of(row, pairs, launch);
  runtime::HostDevice device{1};
  std::unique_ptr<tools::DataEngine> engine = tools::make_cpu_data_engine();
  tools::BackwardChecker checker{row, world, device, *engine};
  std::vector<tools::Matrix> x, dout;        // of ranks
  std::vector<tools::Matrix> w13, w2, kept;  // of experts
  std::vector<BackwardOutputs> outputs;      // of ranks
  std::vector<std::vector<float>> dx_sums;
};

INSTANTIATE_TEST_SUITE_P(Kinds, BackwardCheckTest, testing::Values(DataKind::kUniform, DataKind::kExact));

TEST_P(BackwardCheckTest, PassesWhatTheArithmeticGives) {
  ASSERT_EQ(data.x.kind, GetParam());
  for (int rank = 0; rank < kRanks; ++rank) ASSERT_GE(pairs.tokens(rank), kTokens / 2);
  write(Mistake::kNone);
  EXPECT_EQ(check().wrong, 0);
  EXPECT_LT(check().bound, 0.1) << "the bound says nothing";
}

TEST_P(BackwardCheckTest, CountsEveryElementThatIsWrong) {
  write(Mistake::kNone);
  for (const tools::Matrix* one : {&outputs[1].dx, &outputs[1].dw13, &outputs[1].dw2}) {
    set(*one, 0, 0, at(*one, 0, 0) + 64);
    set(*one, 1, 2, at(*one, 1, 2) - 64);
  }
  outputs[1].dtopk_weight.memory.as<float>()[1] += 64;
  EXPECT_EQ(check().wrong, 7);
}

class ExactBackwardCheckTest : public BackwardCheckTest {};
INSTANTIATE_TEST_SUITE_P(Kinds, ExactBackwardCheckTest, testing::Values(DataKind::kExact));

TEST_P(ExactBackwardCheckTest, AnElementIsNotOffByOneUlp) {
  write(Mistake::kNone);
  const BackwardOutputs& own = outputs[0];
  for (const tools::Matrix* one : {&own.dx, &own.dtopk_weight, &own.dw13, &own.dw2}) ++one->memory.as<uint8_t>()[0];
  EXPECT_EQ(check().wrong, 4);
}

TEST_P(BackwardCheckTest, AnElementNobodyWroteIsWrong) {
  write(Mistake::kNone);
  for (const tools::Matrix* one : {&outputs[0].dx, &outputs[0].dtopk_weight, &outputs[0].dw13, &outputs[0].dw2}) {
    engine->poison(one->view);
  }
  const int64_t experts = kExperts / kRanks;
  EXPECT_EQ(check().wrong, pairs.tokens(0) * (kHidden + kTopk) + experts * 3 * kInter * kHidden);
}

class ClampedBackwardCheckTest : public BackwardCheckTest {
 protected:
  ClampedBackwardCheckTest() : BackwardCheckTest(1) {}
};
INSTANTIATE_TEST_SUITE_P(Kinds, ClampedBackwardCheckTest, testing::Values(DataKind::kUniform, DataKind::kExact));

// Where the kinds take turns, both launches are uniform.
TEST_P(ClampedBackwardCheckTest, PassesWhatTheArithmeticGivesAndNothingElse) {
  ASSERT_EQ(data.x.kind, DataKind::kUniform);
  write(Mistake::kNone);
  EXPECT_EQ(check().wrong, 0);
  for (const Mistake mistake : {Mistake::kNoClamp, Mistake::kSlopesBeyondClamp}) {
    write(mistake);
    EXPECT_GT(check().wrong, kTokens) << static_cast<int>(mistake);
  }
}

struct Planted {
  Mistake mistake;
  std::vector<tools::Matrix BackwardOutputs::*> shows_in;
};

const Planted kPlanted[] = {
    {Mistake::kNoWeight, {&BackwardOutputs::dx, &BackwardOutputs::dw13}},
    {Mistake::kGateAndUpExchanged,
     {&BackwardOutputs::dx, &BackwardOutputs::dtopk_weight, &BackwardOutputs::dw13, &BackwardOutputs::dw2}},
    {Mistake::kStraightSlope, {&BackwardOutputs::dx, &BackwardOutputs::dw13}},
    {Mistake::kDgateAndDupExchanged, {&BackwardOutputs::dx, &BackwardOutputs::dw13}},
    {Mistake::kWeightedScore, {&BackwardOutputs::dtopk_weight}},
    {Mistake::kScoreOfNextSlot, {&BackwardOutputs::dtopk_weight}},
    {Mistake::kScaledWithoutWeight, {&BackwardOutputs::dw2}},
    {Mistake::kRowLost, {&BackwardOutputs::dw13, &BackwardOutputs::dw2}},
    {Mistake::kNeighbourRows, {&BackwardOutputs::dw13, &BackwardOutputs::dw2}},
    {Mistake::kStaleExpert, {&BackwardOutputs::dw13, &BackwardOutputs::dw2}},
    {Mistake::kSlotLost, {&BackwardOutputs::dx}},
};

TEST_P(BackwardCheckTest, AMistakeIsFoundInEachOutputThatShowsIt) {
  ASSERT_TRUE(pairs.of_expert(kExperts - 1).empty());
  for (const Planted& planted : kPlanted) {
    // At exact gates the second term of silu' is zero.
    if (planted.mistake == Mistake::kStraightSlope && GetParam() == DataKind::kExact) continue;
    for (size_t i = 0; i < planted.shows_in.size(); ++i) {
      const auto member = planted.shows_in[i];
      write(planted.mistake);
      std::vector<BackwardOutputs> mistaken = std::move(outputs);
      write(Mistake::kNone);
      for (int rank = 0; rank < kRanks; ++rank) std::swap(outputs[rank].*member, mistaken[rank].*member);
      EXPECT_GT(check().wrong, 0) << "mistake " << static_cast<int>(planted.mistake) << ", its output " << i;
    }
  }
}

}  // namespace
}  // namespace mk::test

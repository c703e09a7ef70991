// SPDX-License-Identifier: MIT
// tests/tools/layer_check_test.cc — the judge of a layer of experts passes what is right and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/activation_clamp.h"
#include "runtime/host_device.h"
#include "tests/support/matrix.h"
#include "tools/data_engine.h"
#include "tools/layer_data.h"
#include "tools/layer_reference.h"

namespace mk::test {
namespace {

using tools::DataKind;
using tools::DataSpec;
using tools::LayerData;

struct Case {
  int64_t hidden;
  int64_t inter;
  int topk;
  DType dtype;
};

constexpr Case kCases[] = {{1, 1, 1, DType::kBf16},       {64, 96, 2, DType::kBf16}, {4096, 1024, 8, DType::kBf16},
                           {7168, 2048, 8, DType::kFp16}, {17, 9, 64, DType::kBf16}, {5, 300, 20, DType::kFp16},
                           {2048, 3, 6, DType::kBf16},    {64, 96, 2, DType::kFp32}, {4096, 4096, 1, DType::kFp32}};

constexpr LayerData exact_data(const Case& at) {
  return tools::layer_data_for(at.hidden, at.inter, at.topk, at.dtype, 1, 1);
}

// Elements of a row that may not be zero.
int64_t most_in_a_row(const DataSpec& spec, int64_t cols) {
  int64_t most = 0;
  for (int64_t row = 0; row < 50; ++row) {
    int64_t count = 0;
    for (int64_t i = row * cols; i < (row + 1) * cols; ++i) count += i % spec.period == 0 ? 1 : 0;
    most = std::max(most, count);
  }
  return most;
}

TEST(LayerData, ExactResultsNeverExceedWhatTheTypeHolds) {
  for (const Case& at : kCases) {
    const LayerData data = exact_data(at);
    const int64_t first = most_in_a_row(data.x, at.hidden);
    const int64_t second = most_in_a_row(data.w2, at.inter);
    EXPECT_LE(first, data.first_products) << at.hidden;
    EXPECT_LE(second, data.second_products) << at.inter;
    EXPECT_LE(at.topk * data.weights.magnitude * second * first * first, tools::largest_integer(at.dtype)) << at.hidden;
  }
}

TEST(LayerData, ExactGatesHaveExactActivations) {
  for (const Case& at : kCases) {
    const LayerData data = exact_data(at);
    for (int64_t n = 1; n <= data.first_products; ++n) {
      const float gate = data.gate.scale * static_cast<float>(n);
      ASSERT_EQ(gate / (1 + std::exp(-gate)), gate);
      ASSERT_EQ(-gate / (1 + std::exp(gate)), 0);
    }
  }
}

TEST(LayerData, WithAClampIsUniform) {
  for (const uint64_t launch : {0, 1}) {
    EXPECT_EQ(tools::layer_data_for(64, 96, 2, DType::kBf16, 1, launch, tools::Clamped::kYes).x.kind,
              DataKind::kUniform);
  }
}

TEST(LayerData, EveryColumnOfEveryWeightCounts) {
  for (const uint64_t launch : {0, 1}) {
    const LayerData data = tools::layer_data_for(1024, 768, 8, DType::kBf16, 1, launch);
    for (const auto& [spec, cols] : {std::pair{data.x, 1024}, std::pair{data.w2, 768}}) {
      std::vector<int> used(cols);
      for (int64_t i = 0; i < spec.period * cols; ++i) used[i % cols] += i % spec.period == 0 ? 1 : 0;
      EXPECT_EQ(std::count(used.begin(), used.end(), 0), 0) << launch;
    }
  }
}

// Two experts, five tokens, and their output as an operator in one node would round it.
class LayerCheckTest : public testing::TestWithParam<DataKind> {
 protected:
  static constexpr int64_t kTokens = 5, kHidden = 12, kInter = 20;
  static constexpr int kExperts = 2, kTopk = 3;
  static constexpr DType kType = DType::kBf16;

  struct Expert {
    Matrix gate{kType, kInter, kHidden};
    Matrix up{kType, kInter, kHidden};
    Matrix w2{kType, kHidden, kInter};
  };

  LayerCheckTest() {
    engine->fill(x.view(), data.x);
    for (int i = 0; i < kExperts; ++i) {
      for (auto [matrix, spec] : {std::pair{&experts[i].gate, data.gate}, std::pair{&experts[i].up, data.up},
                                  std::pair{&experts[i].w2, data.w2}}) {
        spec.rank = i;
        engine->fill(matrix->view(), spec);
      }
    }
    write_out(experts);
  }

  // The last slot of a token names no expert, and the first two may name the same one.
  static int expert_of(int64_t pair) { return pair % kTopk == 2 ? -1 : static_cast<int>(pair / 2 % kExperts); }
  float weight_of(int64_t pair) const { return value_at(data.weights, key_of(data.weights), pair); }

  static float rounded(float value) { return to_float(from_float<Bf16>(value)); }
  static float dot(const std::vector<float>& a, const Matrix& b, int64_t row) {
    float sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b.at(row, static_cast<int64_t>(i));
    return sum;
  }

  // `clamp` is that of what computes, not that of the judge.
  void write_out(const Expert (&of)[kExperts], ActivationClamp clamp = {}) {
    for (int64_t token = 0; token < kTokens; ++token) {
      std::vector<float> sums(kHidden);
      for (int64_t pair = token * kTopk; pair < (token + 1) * kTopk; ++pair) {
        if (expert_of(pair) >= 0) add_result(of[expert_of(pair)], token, weight_of(pair), clamp, sums);
      }
      for (int64_t col = 0; col < kHidden; ++col) out.set(token, col, sums[col]);
    }
  }
  void add_result(const Expert& expert, int64_t token, float weight, ActivationClamp clamp,
                  std::vector<float>& sums) const {
    std::vector<float> row;
    for (int64_t col = 0; col < kHidden; ++col) row.push_back(x.at(token, col));
    std::vector<float> activations;
    for (int64_t i = 0; i < kInter; ++i) {
      const float gate = clamp.gate(dot(row, expert.gate, i));
      activations.push_back(rounded(gate / (1 + std::exp(-gate)) * clamp.up(dot(row, expert.up, i))));
    }
    for (int64_t col = 0; col < kHidden; ++col) sums[col] += rounded(weight * dot(activations, expert.w2, col));
  }

  tools::CheckResult check(float clamp = 0) {
    const tools::LayerRule rule{GetParam(),
                                data.first_products,
                                data.second_products,
                                tools::rounding_of(kType),
                                tools::layer_hops(kType, kTopk, 1),
                                tools::bound_of(clamp)};
    reference.clear(kTokens);
    for (int i = 0; i < kExperts; ++i) {
      tools::ExpertRows rows{{}, experts[i].gate.view(), experts[i].up.view(), experts[i].w2.view(), {}};
      std::vector<tools::RowSource> sources;
      for (int64_t pair = 0; pair < kTokens * kTopk; ++pair) {
        if (expert_of(pair) != i) continue;
        rows.targets.push_back({pair / kTopk, weight_of(pair)});
        sources.push_back({0, pair / kTopk});
      }
      Matrix gathered(kType, std::ssize(sources), kHidden);
      engine->fill_rows(gathered.view(), data.x, sources);
      rows.x = gathered.view();
      reference.add(rows, rule);
    }
    return reference.check(out.view(), rule);
  }

  LayerData data = tools::layer_data_for(kHidden, kInter, kTopk, kType, 1, GetParam() == DataKind::kUniform ? 0 : 1);
  std::unique_ptr<tools::DataEngine> engine = tools::make_cpu_data_engine();
  runtime::HostDevice device{1};
  tools::LayerReference reference{device, {kTokens, kTokens* kTopk, kHidden, kInter}};
  Matrix x{kType, kTokens, kHidden};
  Expert experts[kExperts];
  Matrix out{kType, kTokens, kHidden};
};

INSTANTIATE_TEST_SUITE_P(Kinds, LayerCheckTest, testing::Values(DataKind::kUniform, DataKind::kExact));

TEST_P(LayerCheckTest, PassesWhatTheArithmeticGives) {
  EXPECT_EQ(check().wrong, 0);
  EXPECT_LT(check().bound, 0.1) << "the bound says nothing";
}

TEST_P(LayerCheckTest, CountsEveryElementThatIsWrong) {
  out.set(0, 0, out.at(0, 0) + 2);
  out.set(4, 11, out.at(4, 11) - 2);
  EXPECT_EQ(check().wrong, 2);
}

TEST_P(LayerCheckTest, AnElementNobodyWroteIsWrong) {
  out.poison();
  EXPECT_EQ(check().wrong, kTokens * kHidden);
}

TEST_P(LayerCheckTest, GateAndUpAreNotTheSame) {
  Expert swapped[kExperts] = {experts[0], experts[1]};
  for (Expert& expert : swapped) std::swap(expert.gate, expert.up);
  write_out(swapped);
  EXPECT_GT(check().wrong, kTokens);
}

TEST_P(LayerCheckTest, KnowsTheClamp) {
  if (GetParam() == DataKind::kExact) GTEST_SKIP() << "a clamp makes sums that are not exact";
  constexpr float kClamp = 0.25f;
  EXPECT_GT(check(kClamp).wrong, kTokens) << "nothing was bounded";
  write_out(experts, {kClamp});
  EXPECT_EQ(check(kClamp).wrong, 0);
  EXPECT_GT(check().wrong, kTokens);
  write_out(experts, {1.25f * kClamp});
  EXPECT_GT(check(kClamp).wrong, kTokens);
}

TEST_P(LayerCheckTest, ExpertsAreNotTheSame) {
  const Expert swapped[kExperts] = {experts[1], experts[0]};
  write_out(swapped);
  EXPECT_GT(check().wrong, kTokens);
}

}  // namespace
}  // namespace mk::test

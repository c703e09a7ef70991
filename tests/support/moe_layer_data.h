// SPDX-License-Identifier: MIT
// tests/support/moe_layer_data.h — inputs of a layer of experts, and what is right, in double.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "ops/moe/moe_layer_targets.h"
#include "tests/support/moe_data.h"

namespace mk::test {

class MoeLayerData {
 public:
  MoeLayerData(const moe::LayerProblem& problem, Routing routing, uint64_t seed);

  const moe::LayerProblem& problem() const { return problem_; }
  MoeLaunchData& routing() { return routing_; }
  const MoeLaunchData& routing() const { return routing_; }
  const std::vector<float>& w13(int rank) const { return w13_[rank]; }  // [local experts][2][inter][hidden]
  const std::vector<float>& w2(int rank) const { return w2_[rank]; }    // [local experts][hidden][inter]

  // `out` of a rank; `tolerance` is a part of what the magnitudes of all terms add up to.
  testing::AssertionResult is_right(int rank, const std::vector<float>& out, double tolerance = 1e-5) const;

 private:
  struct Sums {
    std::vector<double> right, magnitude;
  };
  void add_expert(int expert, const float* x, double weight, Sums& sums) const;

  moe::LayerProblem problem_;
  MoeLaunchData routing_;
  std::vector<std::vector<float>> w13_, w2_;
};

// What a rank moves: over NVLink in its node, and over its rail.
uint64_t nvlink_bytes(const MoeLaunchData& data, const moe::LayerLayout& layout, int rank);
uint64_t network_bytes(const MoeLaunchData& data, const moe::LayerLayout& layout, int rank);

// A problem for the CPU in fp32.
inline moe::LayerProblem layer_problem(const WorldShape& world, int local_experts, int topk, int64_t max_tokens,
                                       int64_t max_rows = 0, int64_t hidden = 5, int64_t inter = 3) {
  const moe::Problem dispatch = moe_problem(world, local_experts, topk, max_tokens, max_rows, hidden);
  const MoeShape& shape = dispatch.shape;
  return {world, {hidden, inter, shape.experts, topk, max_tokens, shape.max_rows}, DType::kFp32};
}

// The same with so many shared experts on each rank, and room for their rows.
inline moe::LayerProblem with_shared(moe::LayerProblem problem, int shared) {
  problem.shape.shared = shared;
  problem.shape.max_rows += shared * problem.shape.max_tokens;
  return problem;
}

}  // namespace mk::test

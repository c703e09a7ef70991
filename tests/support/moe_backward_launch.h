// SPDX-License-Identifier: MIT
// tests/support/moe_backward_launch.h — a launch of moe_layer_backward through the public call, on CPUs in fp32, and
// its check.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ops/moe/moe_backward_targets.h"
#include "tests/support/moe_backward_data.h"

namespace mk::test {

class MoeBackwardLaunch {
 public:
  static constexpr float kPoison = -12345;

  // The ranks are those of the World that are here.
  MoeBackwardLaunch(const runtime::Members& here, MoeBackwardData data) : first_(here.first), data_(std::move(data)) {
    MoeLayerData& layer = data_.layer();
    const MoeLayerShape& shape = layer.problem().shape;
    const int64_t experts = layer.problem().local_experts();
    const auto tensor = [](const std::vector<float>& values, int64_t rows, int64_t cols) {
      return Tensor{const_cast<float*>(values.data()), DType::kFp32, rows, cols};
    };
    for (int i = 0; i < here.count; ++i) seen_.push_back(MoeGradients::filled(layer, first_ + i, kPoison));
    for (int i = 0; i < here.count; ++i) {
      const int rank = first_ + i;
      const MoeRank& own = layer.routing().rank(rank);
      args_.push_back({.x = tensor(own.x, own.tokens, shape.hidden),
                       .topk_idx = {own.ids.data()},
                       .topk_weight = own.weights.data(),
                       .w13 = tensor(layer.w13(rank), experts * 2 * shape.inter, shape.hidden),
                       .w2 = tensor(layer.w2(rank), experts * shape.hidden, shape.inter),
                       .kept = tensor(data_.kept(rank), shape.max_rows, 2 * shape.inter),
                       .dout = tensor(data_.dout(rank), own.tokens, shape.hidden),
                       .dx = tensor(seen_[i].dx, own.tokens, shape.hidden),
                       .dtopk_weight = seen_[i].scores.data(),
                       .dw13 = tensor(seen_[i].dw13, experts * 2 * shape.inter, shape.hidden),
                       .dw2 = tensor(seen_[i].dw2, experts * shape.hidden, shape.inter)});
    }
  }
  MoeBackwardLaunch(World& world, MoeBackwardData data) : MoeBackwardLaunch(world.state().members(), std::move(data)) {}
  MoeBackwardLaunch(const MoeBackwardLaunch&) = delete;
  MoeBackwardLaunch(MoeBackwardLaunch&&) = default;

  void enqueue(World& world, const MoeLayerOptions& options = {}) {
    moe_layer_backward(world, data_.layer().problem().shape, args_, options);
  }

  // All ranks, or all but one.
  void enqueue(runtime::WorldState& world, int missing = -1) {
    const runtime::Plan& plan = moe::backward_plan_for(world, data_.layer().problem(), Split{});
    for (size_t i = 0; i < args_.size(); ++i) {
      const int rank = first_ + static_cast<int>(i);
      if (rank != missing) moe::launch_rank(world, plan, rank, args_[i]);
    }
  }

  testing::AssertionResult is_right() const {
    for (size_t i = 0; i < seen_.size(); ++i) {
      if (const auto right = data_.is_right(first_ + static_cast<int>(i), seen_[i]); !right) return right;
    }
    return testing::AssertionSuccess();
  }

  // Nobody wrote a result.
  bool is_untouched() const {
    return std::ranges::all_of(seen_, [](const MoeGradients& own) { return own.is_all(kPoison); });
  }

  const std::vector<MoeGradients>& seen() const { return seen_; }
  std::vector<MoeLayerBackwardArgs>& args() { return args_; }
  const MoeBackwardData& data() const { return data_; }

 private:
  int first_;
  MoeBackwardData data_;
  std::vector<MoeGradients> seen_;
  std::vector<MoeLayerBackwardArgs> args_;
};

}  // namespace mk::test

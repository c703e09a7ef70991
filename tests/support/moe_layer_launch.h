// SPDX-License-Identifier: MIT
// tests/support/moe_layer_launch.h — a launch of moe_layer through the public call, on CPUs in fp32, and its check.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "mkernel/moe_layer.h"
#include "tests/support/moe_layer_data.h"
#include "tests/support/moe_told_drops.h"

namespace mk::test {

class MoeLayerLaunch {
 public:
  static constexpr float kPoison = -12345;

  // `ids` is the type in which ids are passed; the ranks are those of the World that are here.
  MoeLayerLaunch(const runtime::Members& here, MoeLayerData data, MoeIds::Type ids = MoeIds::Type::kInt64)
      : first_(here.first), data_(std::move(data)), out_(here.count), narrow_(here.count) {
    const MoeLayerShape& shape = data_.problem().shape;
    const int64_t experts = data_.problem().local_experts();
    const auto weights = [](const std::vector<float>& values, int64_t rows, int64_t cols) {
      return Tensor{const_cast<float*>(values.data()), DType::kFp32, rows, cols};
    };
    for (int i = 0; i < here.count; ++i) {
      const int rank = first_ + i;
      MoeRank& own = data_.routing().rank(rank);
      out_[i].assign(own.tokens * shape.hidden, kPoison);
      narrow_[i].assign(own.ids.begin(), own.ids.end());
      const bool is_narrow = ids == MoeIds::Type::kInt32;
      args_.push_back({.x = {own.x.data(), DType::kFp32, own.tokens, shape.hidden},
                       .topk_idx = {is_narrow ? static_cast<const void*>(narrow_[i].data()) : own.ids.data(), ids},
                       .topk_weight = own.weights.data(),
                       .w13 = weights(data_.w13(rank), experts * 2 * shape.inter, shape.hidden),
                       .w2 = weights(data_.w2(rank), experts * shape.hidden, shape.inter),
                       .out = {out_[i].data(), DType::kFp32, own.tokens, shape.hidden}});
      told_.take(args_.back(), data_.routing(), rank);
    }
  }
  MoeLayerLaunch(World& world, MoeLayerData data, MoeIds::Type ids = MoeIds::Type::kInt64)
      : MoeLayerLaunch(world.state().members(), std::move(data), ids) {}
  MoeLayerLaunch(const MoeLayerLaunch&) = delete;
  MoeLayerLaunch(MoeLayerLaunch&&) = default;

  void enqueue(World& world, const MoeLayerOptions& options = {}) {
    moe_layer(world, data_.problem().shape, args_, options);
  }

  // All ranks, or all but one.
  void enqueue(runtime::WorldState& world, int missing = -1) {
    const Split chosen;
    const runtime::Plan& plan = moe::plan_for(world, data_.problem(), chosen);
    for (size_t i = 0; i < args_.size(); ++i) {
      const int rank = first_ + static_cast<int>(i);
      if (rank != missing) moe::launch_rank(world, plan, rank, args_[i]);
    }
  }

  testing::AssertionResult is_right() const {
    for (size_t i = 0; i < out_.size(); ++i) {
      if (const auto right = data_.is_right(first_ + static_cast<int>(i), out_[i]); !right) return right;
    }
    return told_.is_right(data_.routing(), first_);
  }

  // Nobody wrote a result.
  bool is_untouched() const {
    return std::ranges::all_of(out_, [](const std::vector<float>& out) {
      return std::ranges::all_of(out, [](float value) { return value == kPoison; });
    });
  }

  const std::vector<std::vector<float>>& out() const { return out_; }
  std::vector<MoeLayerArgs>& args() { return args_; }
  const MoeLayerData& data() const { return data_; }

 private:
  int first_;
  MoeLayerData data_;
  std::vector<std::vector<float>> out_;
  std::vector<std::vector<int32_t>> narrow_;
  std::vector<MoeLayerArgs> args_;
  ToldDrops told_;
};

}  // namespace mk::test

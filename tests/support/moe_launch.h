// SPDX-License-Identifier: MIT
// tests/support/moe_launch.h — a launch of moe_dispatch_gemm through the public call, on CPUs in fp32, and its check.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "mkernel/moe.h"
#include "tests/support/moe_data.h"
#include "tests/support/moe_told_drops.h"

namespace mk::test {

class MoeLaunch {
 public:
  static constexpr float kPoison = -12345;

  // `ids` is the type in which ids are passed; the ranks are those of the World that are here.
  MoeLaunch(World& world, MoeLaunchData data, MoeIds::Type ids = MoeIds::Type::kInt64)
      : MoeLaunch(world.state().members(), std::move(data), ids) {}
  MoeLaunch(const runtime::Members& here, MoeLaunchData data, MoeIds::Type ids = MoeIds::Type::kInt64)
      : first_(here.first), data_(std::move(data)), outputs_(here.count) {
    const MoeShape& shape = data_.problem().shape;
    const int64_t experts = data_.problem().local_experts();
    for (int i = 0; i < here.count; ++i) {
      MoeRank& own = data_.rank(first_ + i);
      Output& out = outputs_[i];
      out.y.assign(shape.max_rows * shape.n, kPoison);
      out.origins.assign(shape.max_rows * 4, -1);
      out.expert_rows.assign(experts, -1);
      out.expert_ends.assign(experts, -1);
      out.ids.assign(own.ids.begin(), own.ids.end());
      const bool is_narrow = ids == MoeIds::Type::kInt32;
      args_.push_back({.x = {own.x.data(), DType::kFp32, own.tokens, shape.hidden},
                       .topk_idx = {is_narrow ? static_cast<const void*>(out.ids.data()) : own.ids.data(), ids},
                       .topk_weight = own.weights.data(),
                       .w = {own.w.data(), DType::kFp32, experts * shape.hidden, shape.n},
                       .y = {out.y.data(), DType::kFp32, shape.max_rows, shape.n},
                       .origins = out.origins.data(),
                       .expert_rows = out.expert_rows.data(),
                       .expert_ends = out.expert_ends.data()});
      told_.take(args_.back(), data_, first_ + i);
    }
  }
  MoeLaunch(const MoeLaunch&) = delete;
  MoeLaunch(MoeLaunch&&) = default;

  void enqueue(World& world, const MoeDispatchGemmOptions& options = {}) {
    moe_dispatch_gemm(world, data_.problem().shape, args_, options);
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
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Output& out = outputs_[i];
      const auto right =
          data_.is_right(first_ + static_cast<int>(i), out.y, out.origins, out.expert_rows, out.expert_ends, kPoison);
      if (!right) return right;
    }
    return told_.is_right(data_, first_);
  }

  // Nobody wrote a result.
  bool is_untouched() const {
    for (const Output& out : outputs_) {
      for (const float value : out.y) {
        if (value != kPoison) return false;
      }
    }
    return true;
  }

  std::vector<MoeDispatchGemmArgs>& args() { return args_; }
  MoeLaunchData& data() { return data_; }

 private:
  struct Output {
    std::vector<float> y;
    std::vector<int32_t> origins, expert_rows, expert_ends, ids;
  };

  int first_;
  MoeLaunchData data_;
  std::vector<Output> outputs_;
  ToldDrops told_;
  std::vector<MoeDispatchGemmArgs> args_;
};

// The World's first launch, with the split that is chosen for it.
inline void expect_it_moves_only_what_is_routed(World& world, MoeLaunch& launch) {
  const Split chosen;
  const runtime::Plan& plan = moe::plan_for(world.state(), launch.data().problem(), chosen);
  launch.enqueue(world);
  world.synchronize();
  ASSERT_TRUE(launch.is_right());
  const auto& layout = plan.layout<moe::Layout>();
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_EQ(plan.nvlink_bytes(rank), launch.data().nvlink_bytes(layout, rank)) << rank;
    EXPECT_EQ(world.network_stats(rank).bytes, launch.data().network_bytes(layout, rank)) << rank;
  }
}

}  // namespace mk::test

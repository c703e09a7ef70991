// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_two_shot.h — how GEMM+AllReduce in two shots is cut.
//
// It is a ReduceScatter with a second half, and so is its layout: windows and signals of the first half
// come first.  In each node the rank on an owner's rail is the *holder* of the owner's finished tiles,
// as it was their reducer.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/gemm_rs/gemm_rs_problem.h"

namespace mk::gemm_ar_op {

constexpr uint32_t kFinalWindow =
    gemm_rs_op::kIncomingWindow + 1;  // at the holder: [owner node] images of a shard, finished

struct TwoShotLayout : gemm_rs_op::Layout {
  enum : int { kIntra, kReduce, kCompute };
  static constexpr std::array<RoleName, 3> kRoles = {{{"intra", "tile"}, {"reduce", "tile"}, {"compute", "tile"}}};

  static constexpr Output kOutput = Output::kAll;

  MK_HD constexpr int64_t num_gathered() const { return (world.size() - 1) * shard.tiles(); }  // by one rank
  MK_HD constexpr int64_t most_puts() const { return (world.nodes - 1) * (2 * shard.tiles() + 1); }

  MK_HD constexpr int holder_of(int rank, int owner) const { return reducer_of(rank, owner); }
  MK_HD constexpr Place final_place(int holder, const Tile& tile) const {
    const int64_t slot = world.node_of(tile.source) * shard.bytes();
    return Place{kFinalWindow, holder, static_cast<uint64_t>(slot + shard.tile_bytes(tile).first)};
  }

  // finished: a tile of another rank lies at its holder in this node.
  MK_HD constexpr uint32_t finished(const Tile& tile) const {
    return gemm_rs_op::Layout::num_signals() + static_cast<uint32_t>(tile.source * shard.tiles() + shard.index(tile));
  }
  MK_HD constexpr uint32_t num_signals() const {
    return gemm_rs_op::Layout::num_signals() + static_cast<uint32_t>(world.size() * shard.tiles());
  }
};

std::vector<uint64_t> window_bytes(const TwoShotLayout& layout);
std::string signal_name(const TwoShotLayout& layout, uint32_t signal);

}  // namespace mk::gemm_ar_op

// SPDX-License-Identifier: MIT
// ops/moe/moe_plan_warp.cuh — a rank's plan of a launch, by a warp: what moe_plan.cc does, with a lane for each expert.
#pragma once

#include <cstdint>

#include "core/rank_view.h"
#include "ops/moe/moe_layout.h"

namespace mk::moe {

// Sum of the values in the lanes before this one.
__device__ inline uint32_t sum_before(uint32_t value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t sum = value;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const uint32_t other = __shfl_up_sync(~0u, sum, distance);
    if (lane >= distance) sum += other;
  }
  return sum - value;
}

// All lanes call each function.
class PlanWarp {
 public:
  struct Found {  // see Refusal
    int expert = -1;
    uint64_t rows = 0;
  };

  __device__ PlanWarp(const RankView& view, const Layout& layout, uint64_t epoch)
      : view_(view), layout_(layout), epoch_(epoch), plan_(words(layout.plan_at(view.rank, 0))) {}

  __device__ Found write() const {
    if (epoch_ == 1) {
      for (uint64_t i = layout_.due_word(0) + lane(); i < layout_.due_word(layout_.max_blocks()); i += 32) plan_[i] = 0;
      __syncwarp();
    }
    const Found found = refusal();
    if (lane() == 0) plan_[layout_.status_word()] = found.expert >= 0;
    if (found.expert >= 0) return found;
    const WorldShape& world = layout_.world;
    for (int local = 0; local < world.ranks; ++local) write_experts(local);
    for (int step = 0; step < world.nodes; ++step) write_source(step);
    __syncwarp();
    add_due();
    return found;
  }

  // Counters of load may be those of several plans, which run at once: only sums are added to them.
  __device__ void tell_caller(int32_t* rows, int32_t* ends, int32_t* load) const {
    const int own = layout_.world.local_of(view_.rank) * layout_.local_experts();
    for (int i = lane(); i < layout_.local_experts(); i += 32) {
      const uint32_t* const expert = plan_ + layout_.expert_word(own + i);
      if (rows != nullptr) rows[i] = static_cast<int32_t>(expert[1]);
      if (ends != nullptr) ends[i] = static_cast<int32_t>(expert[0] + expert[1]);
      if (load != nullptr) atomicAdd(load + i, static_cast<int32_t>(expert[1]));
    }
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ uint32_t* words(const Place& at) const {
    return reinterpret_cast<uint32_t*>(view_.windows.resolve(layout_.world, at));
  }
  __device__ uint32_t counted(int rank, int word) const {
    return __ldcg(words(layout_.counts_at(view_.rank, rank, epoch_)) + word);
  }
  __device__ uint32_t rows_for(int expert, int before_rank) const {
    uint32_t rows = 0;
#pragma unroll 8
    for (int rank = 0; rank < before_rank; ++rank) rows += counted(rank, expert);
    return rows;
  }

  __device__ Found refusal() const {
    for (int rank = 0; rank < layout_.world.size(); ++rank) {
      Found found;
      uint64_t rows = 0;
      for (int first = 0; first < layout_.local_experts(); first += 32) {
        const int expert = rank * layout_.local_experts() + first + lane();
        const bool is_expert = first + lane() < layout_.local_experts();
        const uint32_t own = is_expert ? rows_for(expert, layout_.world.size()) : 0;
        const bool is_over = rows + sum_before(own) + own > static_cast<uint64_t>(layout_.max_rows);
        const uint32_t over = __ballot_sync(~0u, is_expert && is_over);
        if (over != 0 && found.expert < 0) found.expert = __shfl_sync(~0u, expert, __ffs(static_cast<int>(over)) - 1);
        rows += __reduce_add_sync(~0u, own);
      }
      if (found.expert >= 0) return {found.expert, rows};
    }
    return {};
  }

  // Of one rank of the node.
  __device__ void write_experts(int local) const {
    uint32_t row = 0;
    uint32_t block = 0;
    for (int first = 0; first < layout_.local_experts(); first += 32) {
      const int in_node = local * layout_.local_experts() + first + lane();
      const bool is_expert = first + lane() < layout_.local_experts();
      const int expert = layout_.first_expert_of_node(layout_.world.node_of(view_.rank)) + in_node;
      const uint32_t rows = is_expert ? rows_for(expert, layout_.world.size()) : 0;
      const uint32_t blocks = ceil_div<uint32_t>(rows, layout_.tile_m);
      const uint32_t own_row = row + sum_before(rows);
      const uint32_t own_block = block + sum_before(blocks);
      if (is_expert) {
        *reinterpret_cast<uint4*>(plan_ + layout_.expert_word(in_node)) = {own_row, rows, own_block, 0};
      }
      row += __reduce_add_sync(~0u, rows);
      block += __reduce_add_sync(~0u, blocks);
    }
  }

  // What the tokens of one rank bring to the node's experts.
  __device__ void write_source(int step) const {
    const WorldShape& world = layout_.world;
    const int node = world.node_of(view_.rank);
    const int source = world.rank_at(layout_.source_node_at(view_.rank, step), world.local_of(view_.rank));
    const uint32_t height = layout_.bundle_rows;
    uint32_t listed = step == 0 ? counted(source, layout_.first_pair_word(node)) : 0;
    for (int first = 0; first < layout_.node_experts(); first += 32) {
      const int in_node = first + lane();
      const bool is_expert = in_node < layout_.node_experts();
      const int expert = layout_.first_expert_of_node(node) + in_node;
      const uint32_t rows = is_expert ? counted(source, expert) : 0;
      const uint32_t own_listed = listed + sum_before(rows);
      if (is_expert) {
        const uint32_t offset = rows_for(expert, source);
        const int visit = layout_.visit_of_expert(view_.rank, in_node);
        *reinterpret_cast<uint4*>(plan_ + layout_.source_word(step, visit)) = {own_listed, offset, rows, 0};
        plan_[layout_.bundles_word(step, visit)] = rows == 0 ? 0 : ceil_div(offset + rows, height) - offset / height;
      }
      listed += __reduce_add_sync(~0u, rows);
    }
  }

  // A lane for each block, of whichever expert.
  __device__ void add_due() const {
    const int own = layout_.world.local_of(view_.rank) * layout_.local_experts();
    uint32_t blocks = 0;
    for (int first = 0; first < layout_.local_experts(); first += 32) {
      const bool is_expert = first + lane() < layout_.local_experts();
      const uint4 expert = is_expert
                               ? *reinterpret_cast<const uint4*>(plan_ + layout_.expert_word(own + first + lane()))
                               : uint4{0, 0, ~0u, 0};
      const uint32_t begin = blocks;
      blocks += __reduce_add_sync(~0u, ceil_div<uint32_t>(expert.y, layout_.tile_m));
      for (uint32_t group = begin; group < blocks; group += 32) {
        const uint32_t block = group + lane();
        const int of = last_not_above(expert.z, block);
        const uint32_t rows = __shfl_sync(~0u, expert.y, of);
        const uint32_t in_expert = block - __shfl_sync(~0u, expert.z, of);
        if (block < blocks) {
          auto* const due = reinterpret_cast<uint2*>(plan_ + layout_.due_word(static_cast<int>(block)));
          const uint64_t sum = (uint64_t{due->y} << 32 | due->x) + block_range(rows, layout_.tile_m, in_expert).count;
          *due = {static_cast<uint32_t>(sum), static_cast<uint32_t>(sum >> 32)};
        }
      }
    }
    if (lane() == 0) plan_[layout_.blocks_word()] = blocks;
  }

  // The last lane whose value, which grows from lane to lane, is at most `wanted`.
  __device__ static int last_not_above(uint32_t value, uint32_t wanted) {
    int found = 0;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      if (__shfl_sync(~0u, value, found + step) <= wanted) found += step;
    }
    return found;
  }

  const RankView& view_;
  const Layout& layout_;
  const uint64_t epoch_;
  uint32_t* const plan_;
};

}  // namespace mk::moe

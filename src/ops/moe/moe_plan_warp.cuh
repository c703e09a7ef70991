// SPDX-License-Identifier: MIT
// ops/moe/moe_plan_warp.cuh — a rank's plan of a launch, by a warp: what moe_plan.cc does, with a lane for each expert.
#pragma once

#include <cstdint>

#include "core/rank_view.h"
#include "ops/moe/moe_layout.h"
#include "ops/moe/moe_pair_warp.cuh"

namespace mk::moe {

// All lanes call each function.
class PlanWarp {
 public:
  struct Found {  // see Refusal
    int expert = -1;
    uint64_t rows = 0;
  };

  // `scratch` is shared memory of this warp: two words for each expert.
  __device__ PlanWarp(const RankView& view, const Layout& layout, uint64_t epoch, uint32_t* scratch)
      : view_(view),
        layout_(layout),
        epoch_(epoch),
        plan_(words(layout.plan_at(view.rank, 0))),
        counts_(words(layout.counts_at(view.rank, 0, epoch))),
        counts_words_(static_cast<int>(layout.counts_bytes() / kWord)),
        node_(layout.node_of(view.rank)),
        rows_(scratch),
        own_(scratch + layout.experts) {
    for (int expert = lane(); expert < layout_.experts; expert += 32) {
      rows_[expert] = pairs(expert, [&](int) { return layout_.last_phase(); });
    }
    for (int i = lane(); i < layout_.node_experts(); i += 32) {
      own_[i] = pairs(first_expert() + i, [&](int rank) { return is_of_node(rank) ? layout_.last_phase() : -1; });
    }
    __syncwarp();
  }

  // A lane for each rank.
  __device__ Found refusal() const {
    for (int first = 0; first < layout_.world.size(); first += 32) {
      Found found;
      const int rank = first + lane();
      for (int i = 0; rank < layout_.world.size() && i < layout_.local_experts(); ++i) {
        const int expert = rank * layout_.local_experts() + i;
        found.rows += rows_[expert];
        if (found.expert < 0 && found.rows > static_cast<uint64_t>(layout_.max_rows)) found.expert = expert;
      }
      const uint32_t over = __ballot_sync(~0u, found.expert >= 0);
      if (over == 0) continue;
      const int which = __ffs(static_cast<int>(over)) - 1;
      return {__shfl_sync(~0u, found.expert, which), __shfl_sync(~0u, found.rows, which)};
    }
    return {};
  }

  // As write_plan of moe_plan.h, of a launch that is refused or not.
  __device__ void write(bool is_refused) const {
    if (epoch_ == 1) {
      for (uint64_t i = layout_.due_word(0) + lane(); i < layout_.due_word(layout_.max_blocks()); i += 32) plan_[i] = 0;
      __syncwarp();
    }
    if (lane() == 0) plan_[layout_.status_word()] = is_refused ? 1 : 0;
    if (is_refused) return;
    for (int local = 0; local < layout_.world.ranks; ++local) write_experts(local);
    write_ends();
    __syncwarp();
    add_due();
  }

  // As write_batch of moe_plan.h.
  __device__ void write_batch(int batch) const {
    const Source of(layout_, view_.rank, batch);
    const uint32_t height = layout_.bundle_rows;
    uint32_t listed = of.step == 0 ? counted(of.rank, layout_.first_pair_word(node_)) : 0;
    for (int first = 0; first < layout_.node_experts(); first += 32) {
      const int in_node = first + lane();
      const bool is_expert = in_node < layout_.node_experts();
      const int expert = first_expert() + in_node;
      const uint32_t all = is_expert ? pairs_until(of.rank, expert, layout_.last_phase()) : 0;
      const uint32_t own_listed = listed + sum_before(all);
      if (is_expert) {
        const uint32_t skipped = pairs_until(of.rank, expert, of.before);
        const uint32_t rows = pairs_until(of.rank, expert, of.phase) - skipped;
        const uint32_t offset =
            pairs(expert, [&](int rank) { return layout_.phase_before(node_, rank, of.rank, of.phase); });
        const int visit = layout_.visit_of_expert(view_.rank, in_node);
        const uint32_t bundles = rows == 0 ? 0 : ceil_div(offset + rows, height) - offset / height;
        const auto own_blocks = static_cast<uint32_t>(layout_.own_blocks_of(rows_[expert], own_[in_node]));
        *reinterpret_cast<uint4*>(plan_ + layout_.source_word(batch, visit)) = {own_listed + skipped, offset, rows,
                                                                                own_blocks};
        plan_[layout_.bundles_word(batch, visit)] = bundles;
      }
      listed += __reduce_add_sync(~0u, all);
    }
  }

  // Pairs of this node's experts that a batch brings.
  __device__ uint32_t rows_of_batch(int batch) const {
    const Source of(layout_, view_.rank, batch);
    uint32_t rows = 0;
#pragma unroll 1
    for (int i = lane(); i < layout_.node_experts(); i += 32) {
      const int expert = first_expert() + i;
      rows += pairs_until(of.rank, expert, of.phase) - pairs_until(of.rank, expert, of.before);
    }
    return __reduce_add_sync(~0u, rows);
  }

  // Counters of load may be those of several plans, which run at once: only sums are added to them.
  __device__ void tell_caller(int32_t* rows, int32_t* ends, int32_t* load) const {
    const int own = view_.rank * layout_.local_experts();
    int32_t end = 0;
    for (int first = 0; first < layout_.local_experts(); first += 32) {
      const int i = first + lane();
      const auto count = static_cast<int32_t>(i < layout_.local_experts() ? rows_[own + i] : 0);
      const int32_t own_end = end + static_cast<int32_t>(sum_before(count)) + count;
      if (i < layout_.local_experts()) {
        if (rows != nullptr) rows[i] = count;
        if (ends != nullptr) ends[i] = own_end;
        if (load != nullptr) atomicAdd(load + i, count);
      }
      end += __reduce_add_sync(~0u, count);
    }
  }

 private:
  // Whose tokens a batch has: those of phases up to `phase`, behind those up to `before`; -1: from the first on.
  struct Source {
    int step;
    int phase;
    int before;
    int rank;
    __device__ Source(const Layout& layout, int own, int batch)
        : step(layout.step_of_batch(batch)),
          phase(step == 0 ? layout.last_phase() : layout.phase_of_batch(batch)),
          before(step == 0 ? -1 : phase - 1),
          rank(layout.world.rank_at(layout.source_node_at(own, step), layout.world.local_of(own))) {}
  };

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ uint32_t* words(const Place& at) const {
    return reinterpret_cast<uint32_t*>(view_.windows.resolve(layout_.world, at));
  }
  __device__ int first_expert() const { return layout_.first_expert_of_node(node_); }
  __device__ bool is_of_node(int rank) const { return layout_.node_of(rank) == node_; }
  __device__ uint32_t counted(int rank, int word) const { return __ldcg(counts_ + rank * counts_words_ + word); }
  // Of one rank, up to the end of a phase; -1: none.
  __device__ uint32_t pairs_until(int rank, int expert, int phase) const {
    return phase < 0 ? 0 : counted(rank, layout_.pairs_word(phase, expert));
  }
  // Of all ranks, up to the end of the phase that until(rank) says.
  template <class Until>
  __device__ uint32_t pairs(int expert, const Until& until) const {
    uint32_t sum = 0;
#pragma unroll 4
    for (int rank = 0; rank < layout_.world.size(); ++rank) sum += pairs_until(rank, expert, until(rank));
    return sum;
  }

  // Of one rank of the node.
  __device__ void write_experts(int local) const {
    uint32_t row = 0;
    uint32_t block = 0;
    for (int first = 0; first < layout_.local_experts(); first += 32) {
      const int in_node = local * layout_.local_experts() + first + lane();
      const bool is_expert = first + lane() < layout_.local_experts();
      const uint32_t rows = is_expert ? rows_[first_expert() + in_node] : 0;
      const uint32_t blocks = layout_.blocks_until(rows + layout_.tile_m - 1);
      const uint32_t own_row = row + sum_before(rows);
      const uint32_t own_block = block + sum_before(blocks);
      if (is_expert) {
        *reinterpret_cast<uint4*>(plan_ + layout_.expert_word(in_node)) = {own_row, rows, own_block, own_[in_node]};
      }
      row += __reduce_add_sync(~0u, rows);
      block += __reduce_add_sync(~0u, blocks);
    }
  }

  // Of each expert of this rank: where rows up to each phase end.
  __device__ void write_ends() const {
    for (int local = lane(); local < layout_.local_experts(); local += 32) {
      const int expert = view_.rank * layout_.local_experts() + local;
#pragma unroll 1
      for (int phase = 0; phase < layout_.last_phase(); ++phase) {
        plan_[layout_.end_word(phase, local)] =
            own_[expert - first_expert()] + pairs(expert, [&](int rank) { return is_of_node(rank) ? -1 : phase; });
      }
      plan_[layout_.end_word(layout_.last_phase(), local)] = rows_[expert];
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
      blocks += __reduce_add_sync(~0u, static_cast<uint32_t>(layout_.blocks_until(expert.y + layout_.tile_m - 1)));
#pragma unroll 4
      for (uint32_t group = begin; group < blocks; group += 32) {
        const uint32_t block = group + lane();
        const int of = last_not_above(expert.z, block);
        const uint32_t rows = __shfl_sync(~0u, expert.y, of);
        const uint32_t in_expert = block - __shfl_sync(~0u, expert.z, of);
        if (block < blocks) {
          auto* const due = reinterpret_cast<uint2*>(plan_ + layout_.due_word(static_cast<int>(block)));
          const auto height = static_cast<uint32_t>(layout_.tile_m);
          const uint64_t sum = (uint64_t{due->y} << 32 | due->x) + min_of(height, rows - in_expert * height);
          *due = {static_cast<uint32_t>(sum), static_cast<uint32_t>(sum >> 32)};
        }
      }
    }
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
  const uint32_t* const counts_;  // of rank 0; those of the others follow
  const int counts_words_;
  const int node_;
  uint32_t* const rows_;  // of each expert of the world
  uint32_t* const own_;   // of each expert of the node: rows of tokens of the node
};

}  // namespace mk::moe

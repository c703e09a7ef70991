// SPDX-License-Identifier: MIT
// ops/moe/moe_route_body.cuh — routing by a warp: what moe_host_body.h does in loops, with a lane for each pair or
// expert.
#pragma once

#include <cstdint>

#include "core/rank_view.h"
#include "ops/moe/moe_layout.h"
#include "ops/moe/moe_operands.h"
#include "ops/moe/moe_plan_warp.cuh"
#include "target/sm90/ptx.cuh"

namespace mk::moe {

class RouteBody {
 public:
  // `scratch` is shared memory of this warp: two words for each expert.
  __device__ RouteBody(const RankView& view, const Layout& layout, const Operands& operands, std::byte* scratch)
      : view_(view), layout_(layout), operands_(operands), next_(reinterpret_cast<uint32_t*>(scratch)) {}

  __device__ int64_t tokens() const { return operands_.tokens; }

  template <class M>
  __device__ void count(M& m, int slice) {
    for (int i = lane(); i < num_words(); i += 32) next_[i] = 0;
    __syncwarp();
    for_each_pair(slice, [&](int64_t pair, int64_t id, uint32_t) {
      report_bad_id(m, pair, id);
      const int expert = expert_of(id);
      if (expert >= 0) {
        atomicAdd(next_ + expert, 1u);
        if (comes_first(pair, expert)) atomicAdd(next_ + layout_.experts + expert, 1u);
      }
    });
    __syncwarp();
    uint32_t* const all = words(layout_.histogram_at(view_.rank, slice));
    for (int i = lane(); i < num_words(); i += 32) all[i] = next_[i];
    sm90::shared_stores_before_tma();  // copies use the scratch again
    m.store(layout_.histogram_at(view_.rank, slice), layout_.histogram_bytes());
  }

  template <class M>
  __device__ void sum(M& m, int expert) {
    sum_slices(expert);
    if (layout_.world.nodes > 1) sum_slices(layout_.experts + expert);
    m.store(layout_.totals_at(view_.rank), 0);  // inside a rank nothing is counted
  }

  template <class M>
  __device__ void total(M& m) {
    uint32_t* const counts = words(layout_.counts_at(view_.rank, view_.rank, m.epoch()));
    uint32_t pairs = 0;
    for (int node = 0; node < layout_.world.nodes; ++node) {
      if (lane() == 0) counts[layout_.first_pair_word(node)] = pairs;
      uint32_t crossing = 0;
      for_each_expert_of(node, [&](int expert, bool is_expert) {
        const Both own = is_expert ? both_at(layout_.totals_at(view_.rank), expert) : Both{};
        if (is_expert) counts[expert] = own.pairs;
        pairs += __reduce_add_sync(~0u, own.pairs);
        crossing += __reduce_add_sync(~0u, own.firsts);
      });
      if (lane() == 0) counts[layout_.crossing_word(node)] = crossing;
    }
    if (lane() == 0) counts[layout_.first_pair_word(layout_.world.nodes)] = pairs;
    sm90::rows_before_async_reads();  // the counts are copied and put
    m.store(layout_.counts_at(view_.rank, view_.rank, m.epoch()), layout_.counts_bytes());
  }

  template <class M>
  __device__ void list(M& m, int slice) {
    find_first_places(slice);
    if (layout_.world.nodes > 1) {
      for_each_pair(slice, [&](int64_t pair, int64_t id, uint32_t) {
        const int expert = expert_of(id);
        const bool crosses = expert >= 0 && comes_first(pair, expert);
        const uint32_t place = take_place(next_ + layout_.experts, expert, crosses);
        if (!crosses) return;
        const int node = layout_.node_of_expert(expert);
        const int64_t token = pair / layout_.topk;
        *words(layout_.crossing_at(view_.rank, node, place)) = static_cast<uint32_t>(token);
        *words(layout_.crossed_at(view_.rank, node, token)) = place;
      });
    }
    __syncwarp();
    for_each_pair(slice, [&](int64_t pair, int64_t id, uint32_t weight) {
      const int expert = expert_of(id);
      const uint32_t place = take_place(next_, expert, expert >= 0);
      if (expert < 0) return;
      const int64_t token = pair / layout_.topk;
      const int node = layout_.node_of_expert(expert);
      const bool stays = node == layout_.world.node_of(view_.rank);
      const uint32_t row = stays ? static_cast<uint32_t>(token) : read(layout_.crossed_at(view_.rank, node, token));
      *reinterpret_cast<uint4*>(view_.windows.resolve(layout_.world, layout_.list_at(view_.rank, place))) = {
          row, static_cast<uint32_t>(view_.rank), static_cast<uint32_t>(pair), weight};
    });
    sm90::rows_before_async_reads();             // the list is copied and put
    sm90::shared_stores_before_tma();            // copies use the scratch again
    m.store(layout_.list_at(view_.rank, 0), 0);  // where depends on the pairs: nothing is counted inside a rank
  }

  template <class M>
  __device__ void plan(M& m) {
    const PlanWarp plan(view_, layout_, m.epoch());
    const PlanWarp::Found found = plan.write();
    if (found.expert >= 0) {
      m.refuse(kTooManyRows, found.expert, found.rows, layout_.max_rows);
    } else {
      plan.tell_caller(operands_.expert_rows, operands_.expert_ends, operands_.load);
    }
    m.store(layout_.plan_at(view_.rank, 0), layout_.plan_bytes());
  }

 protected:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ uint32_t* words(const Place& at) const {
    return reinterpret_cast<uint32_t*>(view_.windows.resolve(layout_.world, at));
  }
  __device__ uint32_t read(const Place& at) const { return *static_cast<const volatile uint32_t*>(words(at)); }
  __device__ int64_t id_of(int64_t pair) const {
    const std::byte* const ids = view_.windows.inputs[kIdsInput];
    if (operands_.ids == MoeIds::Type::kInt32) return reinterpret_cast<const int32_t*>(ids)[pair];
    return reinterpret_cast<const int64_t*>(ids)[pair];
  }
  __device__ int expert_of(int64_t id) const { return id < 0 || id >= layout_.experts ? -1 : static_cast<int>(id); }

  const RankView& view_;

 private:
  struct Both {
    uint32_t pairs = 0;
    uint32_t firsts = 0;
  };

  __device__ int num_slices() const { return layout_.num_slices(operands_.tokens); }
  __device__ uint32_t weight_of(int64_t pair) const {
    if (!operands_.has_weights) return __float_as_uint(1.0f);
    return reinterpret_cast<const uint32_t*>(view_.windows.inputs[kWeightsInput])[pair];
  }

  // Calls body(pair, its id, its weight) in all lanes at once; where there is no pair, the id is -1.  Several are read
  // before the first is worked on.
  template <class Body>
  __device__ void for_each_pair(int slice, Body&& body) const {
    constexpr int kAtOnce = 4;
    const Range tokens = block_range(operands_.tokens, layout_.slice_tokens, slice);
    const int64_t end = (tokens.first + tokens.count) * layout_.topk;
    for (int64_t first = tokens.first * layout_.topk; first < end; first += 32 * kAtOnce) {
      int64_t ids[kAtOnce];
      uint32_t weights[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int64_t pair = first + 32 * i + lane();
        ids[i] = pair < end ? id_of(pair) : -1;
        weights[i] = pair < end ? weight_of(pair) : 0;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + 32 * i < end) body(first + 32 * i + lane(), ids[i], weights[i]);
      }
    }
  }
  template <class Body>
  __device__ void for_each_expert_of(int node, Body&& body) const {
    for (int first = 0; first < layout_.node_experts(); first += 32) {
      const bool is_expert = first + lane() < layout_.node_experts();
      body(layout_.first_expert_of_node(node) + first + lane(), is_expert);
    }
  }

  template <class M>
  __device__ void report_bad_id(M& m, int64_t pair, int64_t id) const {
    const uint32_t bad = __ballot_sync(~0u, id < -1 || id >= layout_.experts);
    if (bad == 0) return;
    const int first = __ffs(static_cast<int>(bad)) - 1;
    m.refuse(kBadId, __shfl_sync(~0u, pair, first), static_cast<uint64_t>(__shfl_sync(~0u, id, first)),
             layout_.experts);
  }

  // As in moe_host_body.h.
  __device__ bool comes_first(int64_t pair, int expert) const {
    const int node = layout_.node_of_expert(expert);
    if (node == layout_.world.node_of(view_.rank)) return false;
    const int64_t first = pair / layout_.topk * layout_.topk;
    for (int slot = 0; slot < layout_.topk; ++slot) {
      const int other = expert_of(id_of(first + slot));
      if (other < 0 || layout_.node_of_expert(other) != node) continue;
      if (other < expert || (other == expert && first + slot < pair)) return false;
    }
    return true;
  }

  // One node has no firsts.
  __device__ int num_words() const { return (layout_.world.nodes > 1 ? 2 : 1) * layout_.experts; }
  __device__ Both both_at(const Place& row, int expert) const {
    const uint32_t* const all = words(row);
    return {__ldcg(all + expert), layout_.world.nodes > 1 ? __ldcg(all + layout_.experts + expert) : 0};
  }

  // A word of all histograms: its sums over the slices before each, and over all.  A lane for each slice.
  __device__ void sum_slices(int word) const {
    constexpr int kAtOnce = 4;
    const int slices = num_slices();
    const auto at = [&](int slice) { return words(layout_.histogram_at(view_.rank, slice)) + word; };
    uint32_t sum = 0;
    for (int first = lane(); first - lane() < slices; first += 32 * kAtOnce) {
      uint32_t values[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) values[i] = first + 32 * i < slices ? __ldcg(at(first + 32 * i)) : 0;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const uint32_t before = sum + sum_before(values[i]);
        if (first + 32 * i < slices) *at(first + 32 * i) = before;
        sum += __reduce_add_sync(~0u, values[i]);
      }
    }
    if (lane() == 0) words(layout_.totals_at(view_.rank))[word] = sum;
  }

  // Where the slice's first pair for each expert goes: into next_, then the same for tokens that cross.
  __device__ void find_first_places(int slice) {
    uint32_t pairs = 0;
    for (int node = 0; node < layout_.world.nodes; ++node) {
      uint32_t firsts = 0;
      for_each_expert_of(node, [&](int expert, bool is_expert) {
        const Both all = is_expert ? both_at(layout_.totals_at(view_.rank), expert) : Both{};
        const Both before = is_expert ? both_at(layout_.histogram_at(view_.rank, slice), expert) : Both{};
        const uint32_t own_pairs = pairs + sum_before(all.pairs);
        const uint32_t own_firsts = firsts + sum_before(all.firsts);
        if (is_expert) {
          next_[expert] = own_pairs + before.pairs;
          if (layout_.world.nodes > 1) next_[layout_.experts + expert] = own_firsts + before.firsts;
        }
        pairs += __reduce_add_sync(~0u, all.pairs);
        firsts += __reduce_add_sync(~0u, all.firsts);
      });
    }
    __syncwarp();
  }

  // The next place of the expert for each lane that wants one, in the order of lanes.
  __device__ static uint32_t take_place(uint32_t* next, int expert, bool wants) {
    const uint32_t same = __match_any_sync(~0u, wants ? expert : -1 - lane());
    const uint32_t before = __popc(same & ((1u << lane()) - 1));
    const uint32_t place = wants ? next[expert] + before : 0;
    __syncwarp();
    if (wants && before == 0) next[expert] += __popc(same);
    __syncwarp();
    return place;
  }

  const Layout& layout_;
  const Operands& operands_;
  uint32_t* const next_;
};

}  // namespace mk::moe

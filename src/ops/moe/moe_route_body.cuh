// SPDX-License-Identifier: MIT
// ops/moe/moe_route_body.cuh — routing by a warp: what moe_host_body.h does in loops, with a lane for each pair or
// expert.
#pragma once

#include <concepts>
#include <cstdint>

#include "core/rank_view.h"
#include "ops/moe/moe_drop_warp.cuh"
#include "ops/moe/moe_plan_warp.cuh"
#include "target/sm90/ptx.cuh"

namespace mk::moe {

class RouteBody : public DropWarp {
 public:
  // `scratch` is shared memory of this warp: two words for each expert.
  __device__ RouteBody(const RankView& view, const Layout& layout, const Operands& operands, std::byte* scratch)
      : DropWarp(view, layout, operands), next_(reinterpret_cast<uint32_t*>(scratch)) {}

  template <class M>
  __device__ void count(M& m, int slice) {
    const Table table = layout_.histogram();
    for (int i = lane(); i < table.words; i += 32) next_[i] = 0;
    __syncwarp();
    for_each_group<Read::kIds>(slice, [&](const Steps& steps, int first, const Pair(&pairs)[kGroup]) {
      report_bad_ids(m, steps, first, pairs);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const Crossing crossing = crossing_of(steps, first + i, pairs[i].expert);
        if (pairs[i].expert >= 0) atomicAdd(next_ + pairs[i].expert, 1u);
        if (crossing.leads) atomicAdd(next_ + layout_.experts + crossing.node, 1u);
      }
    });
    __syncwarp();
    uint32_t* const all = words(table.slice_at(view_.rank, slice));
    for (int i = lane(); i < table.words; i += 32) all[i] = next_[i];
    sm90::shared_stores_before_tma();  // copies use the scratch again
    m.store(table.slice_at(view_.rank, slice), table.bytes());
  }

  template <class M>
  __device__ void total(M& m) {
    uint32_t* const counts = words(layout_.counts_at(view_.rank, view_.rank, m.epoch()));
    const uint32_t* const totals = words(layout_.histogram().totals_at(view_.rank));
    const int size = layout_.histogram_words();
    // Up to the end of a phase: what is before the first slice behind it.  Histograms lie behind the totals.
    const auto up_to_end = [&](int phase) {
      const int next = (phase + 1) * layout_.slices_per_phase();
      return next < num_slices() ? totals + (1 + next) * size : totals;
    };
    for_each_word(
        layout_.num_phases() * size, [&](int i) { return up_to_end(i / size) + i % size; },
        [&](int i, uint32_t value) { counts[i] = value; });
    uint32_t pairs = 0;
    for (int first = 0; first < layout_.experts; first += 32) {
      const int expert = first + lane();
      const uint32_t own = expert < layout_.experts ? __ldcg(totals + expert) : 0;
      const uint32_t before = pairs + sum_before(own);
      const int node = layout_.node_of_expert(expert);
      const bool is_first = expert < layout_.experts && expert == layout_.first_expert_of_node(node);
      if (is_first) counts[layout_.first_pair_word(node)] = before;
      pairs += __reduce_add_sync(~0u, own);
    }
    if (lane() == 0) counts[layout_.first_pair_word(layout_.world.nodes)] = pairs;
    sm90::rows_before_async_reads();  // the counts are copied and put
    m.store(layout_.counts_at(view_.rank, view_.rank, m.epoch()), layout_.counts_bytes());
  }

  template <class M>
  __device__ void list(M& m, int slice) {
    list(m, slice, NobodyAsks{});
  }

  template <class M>
  __device__ void plan(M& m, int part) {
    make_plan(m, part, [](const PlanWarp&, int, bool) {});
  }

 protected:
  struct NobodyAsks {};
  // crosses(node, token, place, slot) is called for each node that a token crosses to, with its place among those that
  // do, by the lanes that have the token: each is to look at every 32nd slot from `slot` on.
  template <class M, class Crosses>
  __device__ void list(M& m, int slice, const Crosses& crosses) {
    find_first_places(slice);
    uint4* const list = reinterpret_cast<uint4*>(words(layout_.list_at(view_.rank, 0)));
    const Crossed crossed{words({kCrossingWindow, view_.rank, 0}), words({kCrossedWindow, view_.rank, 0})};
    uint32_t place = 0;  // of this lane's token among those that cross, if it does
    for_each_group<Read::kIdsAndWeights>(slice, [&](const Steps& steps, int first, const Pair(&pairs)[kGroup]) {
      uint32_t same[kGroup];
#pragma unroll
      for (int i = 0; i < kGroup; ++i) same[i] = same_expert(pairs[i].expert);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const int expert = pairs[i].expert;
        const Crossing crossing = crossing_of(steps, first + i, expert);
        const int token = steps.token_at(first + i);
        if (layout_.world.nodes > 1) place = place_crossing(steps, token, crossing, crossed, place, crosses);
        const uint32_t listed = take_place(next_ + expert, expert >= 0, same[i]);
        if (expert < 0) continue;
        const uint32_t row = crossing.node >= 0 ? place : static_cast<uint32_t>(token);
        list[listed] = {row, static_cast<uint32_t>(view_.rank), static_cast<uint32_t>(steps.pair_at(first + i)),
                        pairs[i].weight};
      }
    });
    sm90::rows_before_async_reads();             // the list is copied and put
    sm90::shared_stores_before_tma();            // copies use the scratch again
    m.store(layout_.list_at(view_.rank, 0), 0);  // where depends on the pairs: nothing is counted inside a rank
  }

  // also(plan, batch, is_refused) is called for each batch of the part.
  template <class M, class Also>
  __device__ void make_plan(M& m, int part, const Also& also) {
    const PlanWarp plan(view_, layout_, m.epoch(), next_);
    const PlanWarp::Found found = plan.refusal();
    const bool is_refused = found.expert >= 0;
    for (int batch = part; batch < layout_.num_batches(); batch += layout_.num_planners()) {
      plan.write_batch(batch);
      also(plan, batch, is_refused);
    }
    if (part == 0) {
      plan.write(is_refused);
      if (is_refused) {
        m.refuse(kTooManyRows, found.expert, found.rows, layout_.max_rows);
      } else {
        plan.tell_caller(operands_.expert_rows, operands_.expert_ends, operands_.load);
      }
    }
    sm90::shared_stores_before_tma();  // copies use the scratch again
    m.store(layout_.plan_at(view_.rank, 0), layout_.plan_bytes());
  }

 private:
  // Whether a pair is for another node, and which lane leads its token there: that of the first slot of this node.
  struct Crossing {
    int node = -1;
    int leader = 0;
    bool leads = false;
    bool is_led_before = false;  // the leader was a lane in the step before
  };

  // What is written of tokens that cross, for each other node: they themselves, and the place of each.
  struct Crossed {
    uint32_t* tokens;
    uint32_t* places;
  };

  // All lanes, for each step in order.
  __device__ Crossing crossing_of(const Steps& steps, int step, int expert) {
    Crossing crossing;
    if (layout_.world.nodes == 1) return crossing;
    if (expert >= 0) crossing.node = layout_.node_of_expert(expert);
    if (crossing.node == layout_.node_of(view_.rank)) crossing.node = -1;
    const bool crosses = crossing.node >= 0;
    crossing.leader = __ffs(static_cast<int>(same_node(crossing.node, crosses) & steps.lanes)) - 1;
    crossing.leads = crosses && crossing.leader == lane();
    if (steps.is_second(step)) {
#pragma unroll 1
      for (int other = 0; other < 32; ++other) {
        if (__shfl_sync(~0u, node_before_, other) != crossing.node || !crosses || crossing.is_led_before) continue;
        crossing.is_led_before = true;
        crossing.leader = other;
        crossing.leads = false;
      }
    }
    node_before_ = crossing.node;
    return crossing;
  }
  // Lanes that have a pair for the same expert as this one.
  __device__ uint32_t same_expert(int expert) const {
    return lanes_with_same(static_cast<uint32_t>(expert + 1), bits_of(layout_.experts));
  }
  // Lanes that want it, of the same node as this one.
  __device__ uint32_t same_node(int node, bool wants) const {
    if (layout_.world.nodes == 2) return __ballot_sync(~0u, wants);
    return lanes_with_same(wants ? static_cast<uint32_t>(node + 1) : 0, bits_of(layout_.world.nodes));
  }

  // The place of each lane's token among those that cross to the same node, if it does; `before`: in the last step.
  template <class Crosses>
  __device__ uint32_t place_crossing(const Steps& steps, int token, const Crossing& crossing, const Crossed& crossed,
                                     uint32_t before, const Crosses& crosses) {
    const uint32_t same = same_node(crossing.node, crossing.leads);
    const uint32_t taken = take_place(next_ + layout_.experts + crossing.node, crossing.leads, same);
    const uint32_t led_before = __shfl_sync(~0u, before, crossing.leader);
    const uint32_t led_now = __shfl_sync(~0u, taken, crossing.leader);
    if (crossing.leads) {
      const int64_t first = layout_.slot_of(view_.rank, crossing.node) * layout_.max_tokens;
      crossed.tokens[first + taken] = static_cast<uint32_t>(token);
      crossed.places[first + token] = taken;
    }
    if constexpr (!std::same_as<Crosses, NobodyAsks>) {
      uint32_t leaders = __ballot_sync(~0u, crossing.leads) & steps.lanes;
      for (; __any_sync(~0u, leaders != 0); leaders &= leaders - 1) {
        const int leader = leaders != 0 ? __ffs(static_cast<int>(leaders)) - 1 : 0;
        const int node = __shfl_sync(~0u, crossing.node, leader);
        const uint32_t place = __shfl_sync(~0u, taken, leader);
        if (leaders != 0) crosses(node, token, place, steps.own_slot);
      }
    }
    return crossing.is_led_before ? led_before : led_now;
  }

  // Where the slice's first pair for each expert goes, and its first token for each node: into next_.
  __device__ void find_first_places(int slice) {
    const uint32_t* const totals = words(layout_.histogram().totals_at(view_.rank));
    const uint32_t* const before = words(layout_.histogram().slice_at(view_.rank, slice));
    uint32_t pairs = 0;
    for (int first = 0; first < layout_.histogram_words(); first += 32) {
      const int word = first + lane();
      const uint32_t all = word < layout_.experts ? __ldcg(totals + word) : 0;
      const uint32_t pairs_before = pairs + sum_before(all);
      if (word < layout_.histogram_words()) {
        next_[word] = (word < layout_.experts ? pairs_before : 0) + __ldcg(before + word);
      }
      pairs += __reduce_add_sync(~0u, all);
    }
    __syncwarp();
  }

  uint32_t* const next_;
  int node_before_ = -1;  // this lane's in the step before
};

}  // namespace mk::moe

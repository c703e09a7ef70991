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
  // -1: none.
  __device__ int expert_of(int64_t token, int slot) const {
    if (slot >= layout_.named_slots()) return layout_.shared_expert(view_.rank, slot);
    return layout_.expert_of_id(id_of(token * layout_.named_slots() + slot));
  }

  template <class M>
  __device__ void count(M& m, int slice) {
    for (int i = lane(); i < layout_.histogram_words(); i += 32) next_[i] = 0;
    __syncwarp();
    for_each_pair(slice, [&](const Pair& pair) {
      report_bad_id(m, pair);
      const Crossing crossing = crossing_of(pair);
      if (pair.expert >= 0) atomicAdd(next_ + pair.expert, 1u);
      if (crossing.leads) atomicAdd(next_ + layout_.experts + crossing.node, 1u);
    });
    __syncwarp();
    uint32_t* const all = words(layout_.histogram_at(view_.rank, slice));
    for (int i = lane(); i < layout_.histogram_words(); i += 32) all[i] = next_[i];
    sm90::shared_stores_before_tma();  // copies use the scratch again
    m.store(layout_.histogram_at(view_.rank, slice), layout_.histogram_bytes());
  }

  // A word of all histograms: its sums over the slices before each, and over all.  A lane for each slice.
  template <class M>
  __device__ void sum(M& m, int word) const {
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
    m.store(layout_.totals_at(view_.rank), 0);  // inside a rank nothing is counted
  }

  template <class M>
  __device__ void total(M& m) {
    uint32_t* const counts = words(layout_.counts_at(view_.rank, view_.rank, m.epoch()));
    for (int phase = 0; phase < layout_.num_phases(); ++phase) {
      const int next = (phase + 1) * layout_.slices_per_phase();  // the first slice behind it
      const uint32_t* const ends =
          words(next < num_slices() ? layout_.histogram_at(view_.rank, next) : layout_.totals_at(view_.rank));
      uint32_t* const to = counts + layout_.pairs_word(phase, 0);
      for (int i = lane(); i < layout_.histogram_words(); i += 32) to[i] = __ldcg(ends + i);
    }
    const uint32_t* const totals = words(layout_.totals_at(view_.rank));
    uint32_t pairs = 0;
    for (int node = 0; node < layout_.world.nodes; ++node) {
      if (lane() == 0) counts[layout_.first_pair_word(node)] = pairs;
      for_each_expert_of(node, [&](int expert, bool is_expert) {
        pairs += __reduce_add_sync(~0u, is_expert ? __ldcg(totals + expert) : 0);
      });
    }
    if (lane() == 0) counts[layout_.first_pair_word(layout_.world.nodes)] = pairs;
    sm90::rows_before_async_reads();  // the counts are copied and put
    m.store(layout_.counts_at(view_.rank, view_.rank, m.epoch()), layout_.counts_bytes());
  }

  template <class M>
  __device__ void list(M& m, int slice) {
    list(m, slice, [](int, int64_t, uint32_t) {});
  }

  template <class M>
  __device__ void plan(M& m, int part) {
    make_plan(m, part, [](const PlanWarp&, int, bool) {});
  }

 protected:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ uint32_t* words(const Place& at) const {
    return reinterpret_cast<uint32_t*>(view_.windows.resolve(layout_.world, at));
  }
  // Of a pair that callers name: token · named_slots + slot.
  __device__ int64_t id_of(int64_t pair) const {
    const std::byte* const ids = view_.windows.inputs[kIdsInput];
    if (operands_.ids == MoeIds::Type::kInt32) return reinterpret_cast<const int32_t*>(ids)[pair];
    return reinterpret_cast<const int64_t*>(ids)[pair];
  }

  const RankView& view_;

  // crosses(node, token, place) is called by a lane for each token that crosses, and its place among those.
  template <class M, class Crosses>
  __device__ void list(M& m, int slice, const Crosses& crosses) {
    find_first_places(slice);
    uint4* const list = reinterpret_cast<uint4*>(words(layout_.list_at(view_.rank, 0)));
    uint32_t* const crossing_tokens = words({kCrossingWindow, view_.rank, 0});
    uint32_t* const crossed_tokens = words({kCrossedWindow, view_.rank, 0});
    uint32_t place = 0;  // of this lane's token among those that cross, if it does
    for_each_pair(slice, [&](const Pair& pair) {
      const Crossing crossing = crossing_of(pair);
      const uint32_t taken = take_place(next_ + layout_.experts, crossing.node, crossing.leads);
      // Two steps make a token of many slots: its leader may be in the one before.
      const uint32_t led_before = __shfl_sync(~0u, place, crossing.leader);
      const uint32_t led_now = __shfl_sync(~0u, taken, crossing.leader);
      place = crossing.is_led_before ? led_before : led_now;
      if (crossing.leads) {
        const int64_t first = layout_.slot_of(view_.rank, crossing.node) * layout_.max_tokens;
        crossing_tokens[first + place] = static_cast<uint32_t>(pair.token);
        crossed_tokens[first + pair.token] = place;
        crosses(crossing.node, pair.token, place);
      }
      const uint32_t listed = take_place(next_, pair.expert, pair.expert >= 0);
      if (pair.expert < 0) return;
      const uint32_t row = crossing.node >= 0 ? place : static_cast<uint32_t>(pair.token);
      list[listed] = {row, static_cast<uint32_t>(view_.rank), static_cast<uint32_t>(pair.number), pair.weight};
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
  // A lane's pair, or none: no expert then.
  struct Pair {
    int token = 0;
    int number = 0;   // token · topk + slot
    int in_step = 0;  // the token's number among those that the warp has in hand
    int64_t id = -1;
    int expert = -1;
    uint32_t weight = 0;
    bool goes_on = false;  // other slots of the token were in the step before
  };

  // Whether a pair is for another node, and which lane leads its token there: that of the first slot of this node.
  struct Crossing {
    int node = -1;
    int leader = 0;
    bool leads = false;
    bool is_led_before = false;  // the leader was a lane in the step before
  };

  __device__ int num_slices() const { return layout_.num_slices(operands_.tokens); }
  __device__ uint32_t weight_of(int64_t pair) const {
    if (!operands_.has_weights) return __float_as_uint(1.0f);
    return reinterpret_cast<const uint32_t*>(view_.windows.inputs[kWeightsInput])[pair];
  }

  // Calls body(pair) in all lanes at once.  A step has whole tokens, as many as fit, or 32 slots of one token.  Several
  // are read before the first is worked on.
  template <class Body>
  __device__ void for_each_pair(int slice, Body&& body) {
    constexpr int kAtOnce = 4;
    const Range tokens = layout_.tokens_of_slice(operands_.tokens, slice);
    const int steps_of_token = ceil_div(layout_.topk, 32);
    const int tokens_of_step = steps_of_token > 1 ? 1 : 32 / layout_.topk;
    const int in_step = steps_of_token > 1 ? 0 : layout_.by.topk.quotient(lane());
    const int slot_in_step = lane() - in_step * layout_.topk;
    const int steps = steps_of_token > 1 ? static_cast<int>(tokens.count) * steps_of_token
                                         : ceil_div(static_cast<int>(tokens.count), tokens_of_step);
    for (int first = 0; first < steps; first += kAtOnce) {
      Pair pairs[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int step = first + i;
        const int of_tokens = steps_of_token > 1 ? step / steps_of_token : step * tokens_of_step;
        const int part = steps_of_token > 1 ? step - of_tokens * steps_of_token : 0;
        const int in_slice = of_tokens + in_step;
        const int slot = slot_in_step + 32 * part;
        pairs[i].token = static_cast<int>(tokens.first) + in_slice;
        pairs[i].number = pairs[i].token * layout_.topk + slot;
        pairs[i].in_step = in_step;
        pairs[i].goes_on = part > 0;
        if (step < steps && in_step < tokens_of_step && in_slice < tokens.count && slot < layout_.topk) {
          const int named = pairs[i].number - pairs[i].token * layout_.shared;
          const bool is_named = slot < layout_.named_slots();
          if (is_named) pairs[i].id = id_of(named);
          pairs[i].weight = is_named ? weight_of(named) : __float_as_uint(1.0f);
          if (!is_named) pairs[i].expert = layout_.shared_expert(view_.rank, slot);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i >= steps) break;
        if (pairs[i].expert < 0) pairs[i].expert = layout_.expert_of_id(pairs[i].id);
        body(pairs[i]);
      }
    }
  }

  // All lanes, for each step in order.
  __device__ Crossing crossing_of(const Pair& pair) {
    Crossing crossing;
    if (layout_.world.nodes == 1) return crossing;
    if (pair.expert >= 0) crossing.node = layout_.node_of_expert(pair.expert);
    if (crossing.node == layout_.node_of(view_.rank)) crossing.node = -1;
    const bool crosses = crossing.node >= 0;
    const uint32_t same =
        __match_any_sync(~0u, crosses ? pair.in_step * layout_.world.nodes + crossing.node : -1 - lane());
    crossing.leader = __ffs(static_cast<int>(same)) - 1;
    crossing.leads = crosses && crossing.leader == lane();
    if (pair.goes_on) {  // of all lanes or none
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

  template <class Body>
  __device__ void for_each_expert_of(int node, Body&& body) const {
    for (int first = 0; first < layout_.node_experts(); first += 32) {
      const bool is_expert = first + lane() < layout_.node_experts();
      body(layout_.first_expert_of_node(node) + first + lane(), is_expert);
    }
  }

  template <class M>
  __device__ void report_bad_id(M& m, const Pair& pair) const {
    const uint32_t bad = __ballot_sync(~0u, pair.id < -1 || pair.id >= layout_.num_ids());
    if (bad == 0) return;
    const int first = __ffs(static_cast<int>(bad)) - 1;
    m.refuse(kBadId, __shfl_sync(~0u, pair.number, first), static_cast<uint64_t>(__shfl_sync(~0u, pair.id, first)),
             layout_.num_ids());
  }

  // Where the slice's first pair for each expert goes, and its first token for each node: into next_.
  __device__ void find_first_places(int slice) {
    const uint32_t* const totals = words(layout_.totals_at(view_.rank));
    const uint32_t* const before = words(layout_.histogram_at(view_.rank, slice));
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

  // The next place of the expert, or node, for each lane that wants one, in the order of lanes.
  __device__ static uint32_t take_place(uint32_t* next, int of, bool wants) {
    const uint32_t same = __match_any_sync(~0u, wants ? of : -1 - lane());
    const uint32_t before = __popc(same & ((1u << lane()) - 1));
    const uint32_t place = wants ? next[of] + before : 0;
    __syncwarp();
    if (wants && before == 0) next[of] += __popc(same);
    __syncwarp();
    return place;
  }

  const Layout& layout_;
  const Operands& operands_;
  uint32_t* const next_;
  int node_before_ = -1;  // this lane's in the step before
};

}  // namespace mk::moe

// SPDX-License-Identifier: MIT
// ops/moe/moe_pair_warp.cuh — a warp goes through a rank's pairs, with a lane for each.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "core/rank_view.h"
#include "ops/moe/moe_layout.h"
#include "ops/moe/moe_operands.h"

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

// Lanes that have the same value, below 2^bits, as this one.  On an H200 __match_any_sync takes 390 cycles if all
// values differ, and each ballot of this a few.
__device__ inline uint32_t lanes_with_same(uint32_t value, int bits) {
  uint32_t same = ~0u;
  for (int bit = 0; bit < bits; ++bit) {
    const bool is_set = (value >> bit & 1) != 0;
    const uint32_t set = __ballot_sync(~0u, is_set);
    same &= is_set ? set : ~set;
  }
  return same;
}
__device__ inline int bits_of(int value) { return 32 - __clz(value); }

// All lanes call each function.
class PairWarp {
 public:
  __device__ PairWarp(const RankView& view, const Layout& layout, const Operands& operands)
      : view_(view), layout_(layout), operands_(operands) {}

  __device__ int64_t tokens() const { return operands_.tokens; }
  // -1: none.
  __device__ int expert_of(int64_t token, int slot) const {
    if (slot >= layout_.named_slots()) return layout_.shared_expert(view_.rank, slot);
    return layout_.expert_of_id(id_of(token * layout_.named_slots() + slot));
  }

  // A word of a table: its sums over the slices before each, and over all.  A lane for each slice.
  template <class M>
  __device__ void sum(M& m, const Table& table, int word) const {
    constexpr int kAtOnce = 4;
    const int slices = num_slices();
    const auto at = [&](int slice) { return words(table.slice_at(view_.rank, slice)) + word; };
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
    if (lane() == 0) words(table.totals_at(view_.rank))[word] = sum;
    m.store(table.totals_at(view_.rank), 0);  // inside a rank nothing is counted
  }

 protected:
  // How a warp goes through tokens: in steps of whole tokens, as many as fit, or of 32 slots of one token.
  struct Steps {
    int first_token;
    int tokens;
    int topk;
    int at_once;     // tokens of a step
    int own_token;   // this lane's, of a step
    int own_slot;    // likewise; in the second step of a token it is 32 more
    uint32_t lanes;  // of this lane's token

    __device__ Steps(const Layout& layout, const Range& range)
        : first_token(static_cast<int>(range.first)),
          tokens(static_cast<int>(range.count)),
          topk(layout.topk),
          at_once(are_two() ? 1 : layout.by.topk.quotient(32)),
          own_token(are_two() ? 0 : layout.by.topk.quotient(lane())),
          own_slot(lane() - own_token * topk),
          lanes(topk >= 32 ? ~0u : ((1u << topk) - 1) << own_token * topk) {}

    __device__ bool are_two() const { return topk > 32; }  // steps of a token
    __device__ int count() const { return are_two() ? 2 * tokens : (tokens + at_once - 1) / at_once; }
    __device__ bool is_second(int step) const { return are_two() && step % 2 > 0; }

    // Of this lane, if it has a pair in that step.
    __device__ bool has_pair(int step) const {
      return in_slice(step) < tokens && own_token < at_once && slot_at(step) < topk;
    }
    __device__ int token_at(int step) const { return first_token + in_slice(step); }
    __device__ int slot_at(int step) const { return is_second(step) ? own_slot + 32 : own_slot; }
    __device__ int pair_at(int step) const { return token_at(step) * topk + slot_at(step); }

   private:
    __device__ int in_slice(int step) const { return are_two() ? step / 2 : step * at_once + own_token; }
  };
  static_assert(kMostSlots <= 64);

  // What a lane has of its pair, or of none: no expert then.
  struct Pair {
    int64_t id = -1;  // the caller's
    int expert = -1;
    uint32_t weight = 0;
  };
  // What is read of pairs: ids as the caller has them, or as they are in effect.
  enum class Read { kAsked, kIds, kIdsAndWeights };

  // Calls body(steps, first, pairs) in all lanes at once: pairs of kGroup steps, `first` and those behind it.  The next
  // ones are read meanwhile.
  static constexpr int kGroup = 4;
  template <Read kRead, class Body>
  __device__ void for_each_group(int slice, Body&& body) {
    const Steps steps(layout_, layout_.tokens_of_slice(operands_.tokens, slice));
    const int count = steps.count();
    Pair next[kGroup];
    const auto read_from = [&](int first) {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) next[i] = read<kRead>(steps, first + i);
    };
    read_from(0);
#pragma unroll 1
    for (int first = 0; first < count; first += kGroup) {
      Pair pairs[kGroup];
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        pairs[i] = next[i];
        pairs[i].expert = layout_.expert_of_id(pairs[i].id);
        const int slot = steps.slot_at(first + i);
        if (slot < layout_.named_slots() || !steps.has_pair(first + i)) continue;
        pairs[i].expert = layout_.shared_expert(view_.rank, slot);
      }
      read_from(first + kGroup);
      body(steps, first, pairs);
    }
  }

  // The next place of a counter for each lane that wants one, in the order of lanes; `same` have the same counter.
  __device__ static uint32_t take_place(volatile uint32_t* counter, bool wants, uint32_t same) {
    const uint32_t before = __popc(same & ((1u << lane()) - 1));
    const uint32_t place = wants ? *counter + before : 0;
    __syncwarp();
    if (wants && before == 0) *counter = place + __popc(same);
    __syncwarp();
    return place;
  }

  // Calls take(i, the word at from(i)) for each i below `count`; a lane reads several at once.
  template <class From, class Take>
  __device__ static void for_each_word(int count, const From& from, const Take& take) {
    constexpr int kAtOnce = 4;
    for (int first = lane(); first < count; first += 32 * kAtOnce) {
      uint32_t values[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) values[i] = first + 32 * i < count ? __ldcg(from(first + 32 * i)) : 0;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + 32 * i < count) take(first + 32 * i, values[i]);
      }
    }
    __syncwarp();
  }

  // The first one in each step of a group.
  template <class M>
  __device__ void report_bad_ids(M& m, const Steps& steps, int first, const Pair (&pairs)[kGroup]) const {
    const auto is_bad = [&](const Pair& pair) { return pair.id < -1 || pair.id >= layout_.num_ids(); };
    bool has_bad = false;
#pragma unroll
    for (const Pair& pair : pairs) has_bad = has_bad || is_bad(pair);
    if (!__any_sync(~0u, has_bad)) return;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const uint32_t bad = __ballot_sync(~0u, is_bad(pairs[i]));
      if (bad == 0) continue;
      const int lane = __ffs(static_cast<int>(bad)) - 1;
      m.refuse(kBadId, __shfl_sync(~0u, steps.pair_at(first + i), lane),
               static_cast<uint64_t>(__shfl_sync(~0u, pairs[i].id, lane)), layout_.num_ids());
    }
  }

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ uint32_t* words(const Place& at) const {
    return reinterpret_cast<uint32_t*>(view_.windows.resolve(layout_.world, at));
  }
  __device__ int num_slices() const { return layout_.num_slices(operands_.tokens); }

  const RankView& view_;
  const Layout& layout_;
  const Operands& operands_;

 private:
  // Of a pair that callers name: token · named_slots + slot.
  __device__ int64_t id_of(int64_t pair) const {
    if (!layout_.drops) return asked_id_of(pair);
    return static_cast<int32_t>(__ldcg(words(layout_.routed_at(view_.rank, 0)) + pair));
  }
  __device__ int64_t asked_id_of(int64_t pair) const {
    const std::byte* const ids = view_.windows.inputs[kIdsInput];
    if (operands_.ids == MoeIds::Type::kInt32) return reinterpret_cast<const int32_t*>(ids)[pair];
    return reinterpret_cast<const int64_t*>(ids)[pair];
  }
  __device__ uint32_t weight_of(int64_t pair) const {
    if (!operands_.has_weights) return __float_as_uint(1.0f);
    return reinterpret_cast<const uint32_t*>(view_.windows.inputs[kWeightsInput])[pair];
  }

  template <Read kRead>
  __device__ Pair read(const Steps& steps, int step) const {
    Pair pair;
    pair.weight = __float_as_uint(1.0f);
    if (!steps.has_pair(step) || steps.slot_at(step) >= layout_.named_slots()) return pair;
    const int named = steps.token_at(step) * layout_.named_slots() + steps.slot_at(step);
    pair.id = kRead == Read::kAsked ? asked_id_of(named) : id_of(named);
    if (kRead == Read::kIdsAndWeights) pair.weight = weight_of(named);
    return pair;
  }
};

}  // namespace mk::moe

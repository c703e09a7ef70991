// SPDX-License-Identifier: MIT
// ops/moe/moe_drop_warp.cuh — which pairs are dropped, by a warp: what moe_host_pairs.h does in loops.
#pragma once

#include <cstdint>

#include "ops/moe/moe_pair_warp.cuh"
#include "target/sm90/ptx.cuh"

namespace mk::moe {

// Counters lie in global memory: with many ranks and slots there are more than shared memory has room for.
class DropWarp : public PairWarp {
 public:
  using PairWarp::PairWarp;

  template <class M>
  __device__ void tally(M& m, int slice) {
    const Table table = layout_.tallies();
    uint32_t* const all = words(table.slice_at(view_.rank, slice));
    for (int i = lane(); i < table.words; i += 32) all[i] = 0;
    __syncwarp();
    for_each_group<Read::kAsked>(slice, [&](const Steps& steps, int first, const Pair(&pairs)[kGroup]) {
      report_bad_ids(m, steps, first, pairs);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const Claim claim = claim_of(steps, first + i, pairs[i]);
        if (claim.to >= 0) atomicAdd(all + claim.word, 1u);
      }
    });
    m.store(table.slice_at(view_.rank, slice), table.bytes());
  }

  template <class M>
  __device__ void claim(M& m) const {
    uint32_t* const claims = words(layout_.claims_at(view_.rank, view_.rank, m.epoch()));
    const uint32_t* const totals = words(layout_.tallies().totals_at(view_.rank));
    for_each_word(
        layout_.tallies().words, [&](int i) { return totals + i; }, [&](int i, uint32_t value) { claims[i] = value; });
    if (lane() == 0) claims[layout_.tokens_word()] = static_cast<uint32_t>(tokens());
    sm90::rows_before_async_reads();  // the claims are copied and put
    m.store(layout_.claims_at(view_.rank, view_.rank, m.epoch()), layout_.claims_bytes());
  }

  // A lane for each slot, then for each rank.
  template <class M>
  __device__ void cut(M& m, int to) const {
    const int slots = layout_.named_slots();
    const uint32_t tokens = __ldcg(claims_of(m.epoch(), to) + layout_.tokens_word());
    const uint32_t room = static_cast<uint32_t>(layout_.max_rows) - layout_.shared * tokens;
    RankCut cut{static_cast<uint32_t>(slots), 0};
    uint32_t left = 0;  // of the room, for the slot that does not fit
    uint32_t before = 0;
    for (int first = 0; first < slots; first += 32) {
      const int slot = first + lane();
      uint32_t all = 0;
#pragma unroll 4
      for (int rank = 0; rank < layout_.world.size() && slot < slots; ++rank) {
        all += __ldcg(claims_of(m.epoch(), rank) + layout_.claim_word(to, slot));
      }
      const uint32_t own_before = before + sum_before(all);
      const uint32_t over = __ballot_sync(~0u, own_before + all > room);
      if (over != 0 && cut.slot == static_cast<uint32_t>(slots)) {
        const int which = __ffs(static_cast<int>(over)) - 1;
        cut.slot = static_cast<uint32_t>(first + which);
        left = room - __shfl_sync(~0u, own_before, which);
      }
      before += __reduce_add_sync(~0u, all);
    }
    if (cut.slot < static_cast<uint32_t>(slots)) {
      const int word = layout_.claim_word(to, static_cast<int>(cut.slot));
      uint32_t taken = 0;
      for (int rank = lane(); rank < view_.rank; rank += 32) taken += __ldcg(claims_of(m.epoch(), rank) + word);
      taken = __reduce_add_sync(~0u, taken);
      cut.kept = min_of(left - min_of(left, taken), __ldcg(claims_of(m.epoch(), view_.rank) + word));
    }
    if (lane() == 0) *reinterpret_cast<uint2*>(words(layout_.cut_at(view_.rank, to))) = {cut.slot, cut.kept};
    m.store(layout_.cut_at(view_.rank, to), sizeof(RankCut));
  }

  template <class M>
  __device__ void keep(M& m, int slice) {
    const Table table = layout_.tallies();
    uint32_t* const places = words(table.slice_at(view_.rank, slice));
    uint32_t* const routed = words(layout_.routed_at(view_.rank, 0));
    for_each_group<Read::kAsked>(slice, [&](const Steps& steps, int first, const Pair(&pairs)[kGroup]) {
      RankCut cuts[kGroup];
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const Claim claim = claim_of(steps, first + i, pairs[i]);
        if (claim.to >= 0) cuts[i] = cut_of(claim.to);
      }
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const Claim claim = claim_of(steps, first + i, pairs[i]);
        const bool hangs_on_place = claim.to >= 0 && cuts[i].slot == static_cast<uint32_t>(claim.slot);
        uint32_t place = 0;
        if (__any_sync(~0u, hangs_on_place)) {
          const uint32_t same = __match_any_sync(~0u, hangs_on_place ? claim.word : -1);
          place = take_place(places + claim.word, hangs_on_place, same);
        }
        if (claim.slot < 0) continue;
        const bool is_kept = claim.to >= 0 && cuts[i].keeps(static_cast<uint32_t>(claim.slot), place);
        const auto id = static_cast<uint32_t>(is_kept ? static_cast<int32_t>(pairs[i].id) : -1);
        const int64_t at = int64_t{steps.token_at(first + i)} * layout_.named_slots() + claim.slot;
        routed[at] = id;
        if (operands_.routed_idx != nullptr) operands_.routed_idx[at] = static_cast<int32_t>(id);
      }
    });
    m.store(layout_.routed_at(view_.rank, 0), 0);  // inside a rank nothing is counted
  }

  // A lane for each slot.
  template <class M>
  __device__ void report_dropped(M& m) const {
    if (operands_.dropped == nullptr) return;
    const uint32_t* const claims = claims_of(m.epoch(), view_.rank);
    for (int slot = lane(); slot < layout_.named_slots(); slot += 32) {
      uint32_t dropped = 0;
#pragma unroll 4
      for (int to = 0; to < layout_.world.size(); ++to) {
        dropped += cut_of(to).dropped(static_cast<uint32_t>(slot), __ldcg(claims + layout_.claim_word(to, slot)));
      }
      operands_.dropped[slot] = static_cast<int32_t>(dropped);
    }
    __syncwarp();
  }

 private:
  // What a lane's pair claims: room at a rank, -1 if at none.  A slot of -1: the lane has no pair of the caller's.
  struct Claim {
    int to = -1;
    int slot = -1;
    int word = 0;
  };

  __device__ Claim claim_of(const Steps& steps, int step, const Pair& pair) const {
    const int slot = steps.slot_at(step);
    if (!steps.has_pair(step) || slot >= layout_.named_slots()) return {};
    if (pair.expert < 0) return {-1, slot, 0};
    const int to = layout_.rank_of_expert(pair.expert);
    return {to, slot, layout_.claim_word(to, slot)};
  }

  __device__ const uint32_t* claims_of(uint64_t epoch, int rank) const {
    return words(layout_.claims_at(view_.rank, rank, epoch));
  }
  __device__ RankCut cut_of(int to) const {
    const uint2 cut = __ldcg(reinterpret_cast<const uint2*>(words(layout_.cut_at(view_.rank, to))));
    return {cut.x, cut.y};
  }
};

}  // namespace mk::moe

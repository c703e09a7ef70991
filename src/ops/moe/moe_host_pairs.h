// SPDX-License-Identifier: MIT
// ops/moe/moe_host_pairs.h — a rank's pairs, and which of them are dropped, as plain loops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/math.h"
#include "ops/moe/moe_layout.h"
#include "ops/moe/moe_operands.h"

namespace mk::moe {

// Resolve: Place → std::byte*.  Functions that are called with a machine tell it what they read and write.
template <class Resolve>
class HostPairs {
 public:
  HostPairs(const Layout& layout, int rank, const Operands& operands, Resolve resolve)
      : layout_(layout), rank_(rank), operands_(operands), resolve_(std::move(resolve)) {}

  int64_t tokens() const { return operands_.tokens; }
  // -1: none.
  int expert_of(int64_t token, int slot) {
    return is_named(slot) ? layout_.expert_of_id(id_of(token, slot)) : layout_.shared_expert(rank_, slot);
  }

  // The slice's pairs by rank and slot.
  template <class M>
  void tally(M& m, int slice) {
    const Place at = layout_.tallies().slice_at(rank_, slice);
    uint32_t* const all = words(at);
    std::fill(all, all + layout_.tallies().words, 0u);
    for_each_asked(slice, [&](int64_t token, int slot, int64_t id) {
      refuse_bad_id(m, token, slot, id);
      const int expert = layout_.expert_of_id(id);
      if (expert >= 0) ++all[layout_.claim_word(layout_.rank_of_expert(expert), slot)];
    });
    m.store(at, layout_.tallies().bytes());
  }

  // A word of a table over all slices.
  template <class M>
  void sum(M& m, const Table& table, int word) {
    uint32_t before = 0;
    for (int slice = 0; slice < num_slices(); ++slice) {
      const Place at = word_of(table.slice_at(rank_, slice), word);
      m.load(at, kWord);
      write_word(m, at, std::exchange(before, before + *words(at)));
    }
    write_word(m, word_of(table.totals_at(rank_), word), before);
  }

  template <class M>
  void claim(M& m) {
    const Place at = layout_.claims_at(rank_, rank_, m.epoch());
    uint32_t* const claims = words(at);
    std::memset(claims, 0, layout_.claims_bytes());
    std::ranges::copy(words_of(m, layout_.tallies().totals_at(rank_), layout_.tallies().words), claims);
    claims[layout_.tokens_word()] = static_cast<uint32_t>(tokens());
    m.store(at, layout_.claims_bytes());
  }

  template <class M>
  void cut(M& m, int to) {
    std::vector<std::vector<uint32_t>> claims;
    const int size = layout_.tokens_word() + 1;
    for (int rank = 0; rank < layout_.world.size(); ++rank) {
      claims.push_back(words_of(m, layout_.claims_at(rank_, rank, m.epoch()), size));
    }
    auto room = static_cast<uint32_t>(layout_.max_rows) - layout_.shared * claims[to][layout_.tokens_word()];
    RankCut cut{static_cast<uint32_t>(layout_.named_slots()), 0};
    for (int slot = 0; slot < layout_.named_slots(); ++slot) {
      const int word = layout_.claim_word(to, slot);
      uint32_t all = 0;
      for (const auto& of : claims) all += of[word];
      if (all <= room) {
        room -= all;
        continue;
      }
      for (int rank = 0; rank < rank_; ++rank) room -= std::min(room, claims[rank][word]);
      cut = {static_cast<uint32_t>(slot), std::min(room, claims[rank_][word])};
      break;
    }
    const Place at = layout_.cut_at(rank_, to);
    *reinterpret_cast<RankCut*>(resolve_(at)) = cut;
    m.store(at, sizeof(cut));
  }

  template <class M>
  void keep(M& m, int slice) {
    const std::vector<RankCut> cuts = cuts_of_all(m);
    std::vector<uint32_t> before = words_of(m, layout_.tallies().slice_at(rank_, slice), layout_.tallies().words);
    for_each_asked(slice, [&](int64_t token, int slot, int64_t id) {
      const int expert = layout_.expert_of_id(id);
      bool is_kept = false;
      if (expert >= 0) {
        const int to = layout_.rank_of_expert(expert);
        const uint32_t place = before[layout_.claim_word(to, slot)]++;
        is_kept = cuts[to].keeps(slot, place);
      }
      const int32_t routed = is_kept ? static_cast<int32_t>(id) : -1;
      write_word(m, word_of(layout_.routed_at(rank_, token), slot), static_cast<uint32_t>(routed));
      if (operands_.routed_idx != nullptr) operands_.routed_idx[token * layout_.named_slots() + slot] = routed;
    });
  }

  template <class M>
  void report_dropped(M& m) {
    if (operands_.dropped == nullptr) return;
    const std::vector<RankCut> cuts = cuts_of_all(m);
    const auto claims = words_of(m, layout_.claims_at(rank_, rank_, m.epoch()), layout_.tokens_word());
    for (int slot = 0; slot < layout_.named_slots(); ++slot) {
      uint32_t dropped = 0;
      for (int to = 0; to < layout_.world.size(); ++to) {
        dropped += cuts[to].dropped(slot, claims[layout_.claim_word(to, slot)]);
      }
      operands_.dropped[slot] = static_cast<int32_t>(dropped);
    }
  }

 protected:
  static Place word_of(const Place& row, int64_t word) { return {row.window, row.rank, row.offset + word * kWord}; }
  uint32_t* words(const Place& place) { return reinterpret_cast<uint32_t*>(resolve_(place)); }
  template <class M>
  std::vector<uint32_t> words_of(M& m, const Place& at, int count) {
    m.load(at, count * kWord);
    return {words(at), words(at) + count};
  }
  template <class M>
  void write_word(M& m, const Place& at, uint32_t value) {
    *words(at) = value;
    m.store(at, kWord);
  }
  int num_slices() const { return layout_.num_slices(operands_.tokens); }

  bool is_named(int slot) const { return slot < layout_.named_slots(); }
  // Of a slot that callers name: as it is in effect, and as the caller has it; -1: none.
  int64_t id_of(int64_t token, int slot) {
    if (!layout_.drops) return asked_id_of(token, slot);
    return static_cast<int32_t>(*words(word_of(layout_.routed_at(rank_, token), slot)));
  }
  int64_t asked_id_of(int64_t token, int slot) {
    const int64_t pair = token * layout_.named_slots() + slot;
    const std::byte* const ids = resolve_({kIdsInput, rank_, 0});
    if (operands_.ids == MoeIds::Type::kInt32) return reinterpret_cast<const int32_t*>(ids)[pair];
    return reinterpret_cast<const int64_t*>(ids)[pair];
  }
  template <class M>
  void refuse_bad_id(M& m, int64_t token, int slot, int64_t id) {
    if (id >= -1 && id < layout_.num_ids()) return;
    m.refuse(kBadId, token * layout_.topk + slot, static_cast<uint64_t>(id), layout_.num_ids());
  }
  float weight_of(int64_t token, int slot) {
    if (!operands_.has_weights || !is_named(slot)) return 1;
    const auto* const weights = reinterpret_cast<const float*>(resolve_({kWeightsInput, rank_, 0}));
    return weights[token * layout_.named_slots() + slot];
  }

  template <class Body>
  void for_each_token(int slice, Body&& body) const {
    const Range tokens = layout_.tokens_of_slice(operands_.tokens, slice);
    for (int64_t token = tokens.first; token < tokens.first + tokens.count; ++token) body(token);
  }
  template <class Body>
  void for_each_asked(int slice, Body&& body) {
    for_each_token(slice, [&](int64_t token) {
      for (int slot = 0; slot < layout_.named_slots(); ++slot) body(token, slot, asked_id_of(token, slot));
    });
  }
  // Those that name an expert.
  template <class Body>
  void for_each_slot(int64_t token, Body&& body) {
    for (int slot = 0; slot < layout_.topk; ++slot) {
      const int expert = expert_of(token, slot);
      if (expert >= 0) body(slot, expert);
    }
  }

  const Layout& layout_;
  const int rank_;
  const Operands operands_;
  Resolve resolve_;

 private:
  template <class M>
  std::vector<RankCut> cuts_of_all(M& m) {
    const Place at = layout_.cut_at(rank_, 0);
    m.load(at, layout_.world.size() * sizeof(RankCut));
    const auto* const cuts = reinterpret_cast<const RankCut*>(resolve_(at));
    return {cuts, cuts + layout_.world.size()};
  }
};

}  // namespace mk::moe

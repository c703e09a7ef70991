// SPDX-License-Identifier: MIT
// ops/moe/moe_host_body.h — routing and the experts' maths as plain loops.
//
// CPU threads and simulated workers use it; they differ in how a Place becomes a pointer.  Each function tells its
// machine what it reads and writes, so that the simulator can check it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "ops/moe/moe_dispatch_protocol.h"
#include "ops/moe/moe_operands.h"
#include "ops/moe/moe_plan.h"
#include "target/cpu/cpu_gemm.h"

namespace mk::moe {

// Resolve: Place → std::byte*.
template <class T, class Resolve>
class HostBody {
 public:
  HostBody(const Layout& layout, int rank, const Operands& operands, Resolve resolve)
      : layout_(layout), rank_(rank), operands_(operands), resolve_(std::move(resolve)) {}

  int64_t tokens() const { return operands_.tokens; }
  // -1: none.
  int expert_of(int64_t token, int slot) {
    return is_named(slot) ? layout_.expert_of_id(id_of(token, slot)) : layout_.shared_expert(rank_, slot);
  }

  // The slice's pairs by expert, and its tokens that cross by node.
  template <class M>
  void count(M& m, int slice) {
    uint32_t* const all = words(layout_.histogram_at(rank_, slice));
    std::fill(all, all + layout_.histogram_words(), 0u);
    for_each_pair(slice, [&](int64_t token, int slot, int64_t id) {
      if (id < -1 || id >= layout_.num_ids()) {
        m.refuse(kBadId, token * layout_.topk + slot, static_cast<uint64_t>(id), layout_.num_ids());
      }
      const int expert = expert_of(token, slot);
      if (expert < 0) return;
      ++all[expert];
      if (comes_first(token, slot, expert)) ++all[layout_.experts + layout_.node_of_expert(expert)];
    });
    m.store(layout_.histogram_at(rank_, slice), layout_.histogram_bytes());
  }

  // A word of the histograms over all slices.
  template <class M>
  void sum(M& m, int word) {
    uint32_t before = 0;
    for (int slice = 0; slice < num_slices(); ++slice) {
      const Place at = word_of(layout_.histogram_at(rank_, slice), word);
      m.load(at, kWord);
      write_word(m, at, std::exchange(before, before + *words(at)));
    }
    write_word(m, word_of(layout_.totals_at(rank_), word), before);
  }

  // The rank's Counts.
  template <class M>
  void total(M& m) {
    uint32_t* const counts = words(layout_.counts_at(rank_, rank_, m.epoch()));
    std::memset(counts, 0, layout_.counts_bytes());
    for (int phase = 0; phase < layout_.num_phases(); ++phase) {
      const int next = (phase + 1) * layout_.slices_per_phase();  // the first slice behind it
      const Place ends = next < num_slices() ? layout_.histogram_at(rank_, next) : layout_.totals_at(rank_);
      std::ranges::copy(histogram(m, ends), counts + layout_.pairs_word(phase, 0));
    }
    const uint32_t* const all = counts + layout_.pairs_word(layout_.last_phase(), 0);
    uint32_t pairs = 0;
    for (int expert = 0; expert < layout_.experts; ++expert) {
      if (expert % layout_.node_experts() == 0) counts[layout_.first_pair_word(layout_.node_of_expert(expert))] = pairs;
      pairs += all[expert];
    }
    counts[layout_.first_pair_word(layout_.world.nodes)] = pairs;
    m.store(layout_.counts_at(rank_, rank_, m.epoch()), layout_.counts_bytes());
  }

  // The slice's Routes, where they belong in the list, and its tokens that cross.
  template <class M>
  void list(M& m, int slice) {
    const std::vector<uint32_t> all = histogram(m, layout_.totals_at(rank_));
    // Where the slice's first pair for each expert, and its first token for each node, go.
    std::vector<uint32_t> next = histogram(m, layout_.histogram_at(rank_, slice));
    uint32_t pairs = 0;
    for (int expert = 0; expert < layout_.experts; ++expert) next[expert] += std::exchange(pairs, pairs + all[expert]);
    for_each_token(slice, [&](int64_t token) {
      for_each_slot(token, [&](int slot, int expert) {
        if (!comes_first(token, slot, expert)) return;
        const int node = layout_.node_of_expert(expert);
        const uint32_t place = next[layout_.experts + node]++;
        write_word(m, layout_.crossing_at(rank_, node, place), static_cast<uint32_t>(token));
        write_word(m, layout_.crossed_at(rank_, node, token), place);
      });
      for_each_slot(token, [&](int slot, int expert) {
        const int node = layout_.node_of_expert(expert);
        const bool stays = node == layout_.world.node_of(rank_);
        const int64_t pair = token * layout_.topk + slot;
        const Place at = layout_.list_at(rank_, next[expert]++);
        *reinterpret_cast<Route*>(resolve_(at)) = {
            stays ? static_cast<uint32_t>(token) : *words(layout_.crossed_at(rank_, node, token)),
            static_cast<uint32_t>(rank_), static_cast<uint32_t>(pair), weight_of(token, slot)};
        m.store(at, sizeof(Route));
      });
    });
  }

  // Part `part` of what follows from all counts; see PlanWords.
  template <class M>
  void plan(M& m, int part) {
    std::vector<const uint32_t*> counts;
    for (int rank = 0; rank < layout_.world.size(); ++rank) {
      counts.push_back(words(layout_.counts_at(rank_, rank, m.epoch())));
      m.load(layout_.counts_at(rank_, rank, m.epoch()), layout_.counts_bytes());
    }
    uint32_t* const plan = words(layout_.plan_at(rank_, 0));
    for (int batch = part; batch < layout_.num_batches(); batch += layout_.num_planners()) {
      write_batch(layout_, rank_, batch, counts, plan);
      store_words(m, layout_.bundles_word(batch, 0), layout_.node_experts());
      store_words(m, layout_.source_word(batch, 0), 4 * layout_.node_experts());
    }
    if (part > 0) return;
    const uint64_t due = layout_.due_word(0);
    const uint64_t num_due = layout_.due_word(layout_.max_blocks()) - due;
    if (m.epoch() == 1) {
      std::memset(plan + due, 0, num_due * kWord);
    } else {
      m.load(layout_.plan_at(rank_, due), num_due * kWord);
    }
    const Refusal refused = write_plan(layout_, rank_, counts, plan);
    if (refused.expert >= 0) {
      m.refuse(kTooManyRows, refused.expert, refused.rows, layout_.max_rows);
    } else {
      tell_caller(plan);
    }
    store_words(m, 0, layout_.end_word(layout_.num_phases(), 0));
    store_words(m, due, num_due);
  }

  void multiply(const ExpertTile& tile) {
    const Range cols = block_range(layout_.n, layout_.tile_n, tile.col_block);
    const T* const w = static_cast<const T*>(operands_.w.data) + tile.expert * layout_.k * layout_.n;
    const auto b = cpu::right_operand<T>(w, operands_.w_order, layout_.n, layout_.k, cols.first);
    T* const y = static_cast<T*>(operands_.y.data) + tile.row * layout_.n + cols.first;
    const T* const rows = reinterpret_cast<const T*>(resolve_(layout_.row_at(rank_, tile.row)));
    cpu::gemm_tile(rows, b, y, tile.rows, cols.count, layout_.k, layout_.n);
  }

  void take_origins(const ExpertTile& tile) {
    if (operands_.origins == nullptr) return;
    std::memcpy(operands_.origins + tile.row * 4, resolve_(layout_.origin_at(rank_, tile.row)),
                tile.rows * sizeof(Route));
  }

 protected:
  static Place word_of(const Place& row, int64_t word) { return {row.window, row.rank, row.offset + word * kWord}; }
  uint32_t* words(const Place& place) { return reinterpret_cast<uint32_t*>(resolve_(place)); }
  template <class M>
  void write_word(M& m, const Place& at, uint32_t value) {
    *words(at) = value;
    m.store(at, kWord);
  }
  // Of the plan.
  template <class M>
  void store_words(M& m, uint64_t first, uint64_t count) {
    m.store(layout_.plan_at(rank_, first), count * kWord);
  }
  int num_slices() const { return layout_.num_slices(operands_.tokens); }

  bool is_named(int slot) const { return slot < layout_.named_slots(); }
  // Of a slot that callers name; -1: none.
  int64_t id_of(int64_t token, int slot) {
    const int64_t pair = token * layout_.named_slots() + slot;
    const std::byte* const ids = resolve_({kIdsInput, rank_, 0});
    if (operands_.ids == MoeIds::Type::kInt32) return reinterpret_cast<const int32_t*>(ids)[pair];
    return reinterpret_cast<const int64_t*>(ids)[pair];
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
  void for_each_pair(int slice, Body&& body) {
    for_each_token(slice, [&](int64_t token) {
      for (int slot = 0; slot < layout_.topk; ++slot) body(token, slot, is_named(slot) ? id_of(token, slot) : -1);
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

  // Whether the token crosses to another node for this pair: for the first slot that names an expert there.
  bool comes_first(int64_t token, int slot, int expert) {
    const int node = layout_.node_of_expert(expert);
    bool is_first = node != layout_.world.node_of(rank_);
    for_each_slot(token, [&](int other, int that) {
      if (other < slot && layout_.node_of_expert(that) == node) is_first = false;
    });
    return is_first;
  }

  template <class M>
  std::vector<uint32_t> histogram(M& m, const Place& at) {
    m.load(at, layout_.histogram_bytes());
    return {words(at), words(at) + layout_.histogram_words()};
  }

  void tell_caller(const uint32_t* plan) const {
    const int own = layout_.world.local_of(rank_) * layout_.local_experts();
    for (int i = 0; i < layout_.local_experts(); ++i) {
      const uint32_t* const expert = plan + layout_.expert_word(own + i);
      if (operands_.expert_rows != nullptr) operands_.expert_rows[i] = static_cast<int32_t>(expert[1]);
      if (operands_.expert_ends != nullptr) operands_.expert_ends[i] = static_cast<int32_t>(expert[0] + expert[1]);
      if (operands_.load != nullptr) operands_.load[i] += static_cast<int32_t>(expert[1]);
    }
  }

  const Layout& layout_;
  const int rank_;
  const Operands operands_;
  Resolve resolve_;
};

}  // namespace mk::moe

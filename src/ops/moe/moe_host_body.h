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
#include "ops/moe/moe_host_pairs.h"
#include "ops/moe/moe_operands.h"
#include "ops/moe/moe_plan.h"
#include "target/cpu/cpu_gemm.h"

namespace mk::moe {

// Resolve: Place → std::byte*.
template <class T, class Resolve>
class HostBody : public HostPairs<Resolve> {
 protected:
  using Base = HostPairs<Resolve>;
  using Base::layout_, Base::rank_, Base::operands_, Base::resolve_;
  using Base::num_slices, Base::words, Base::words_of, Base::write_word;

 public:
  using Base::Base;

  // The slice's pairs by expert, and its tokens that cross by node.
  template <class M>
  void count(M& m, int slice) {
    const Table table = layout_.histogram();
    uint32_t* const all = words(table.slice_at(rank_, slice));
    std::fill(all, all + table.words, 0u);
    load_routed(m, slice);
    this->for_each_token(slice, [&](int64_t token) {
      for (int slot = 0; slot < layout_.named_slots(); ++slot) {
        this->refuse_bad_id(m, token, slot, this->id_of(token, slot));
      }
      this->for_each_slot(token, [&](int slot, int expert) {
        ++all[expert];
        if (comes_first(token, slot, expert)) ++all[layout_.experts + layout_.node_of_expert(expert)];
      });
    });
    m.store(table.slice_at(rank_, slice), table.bytes());
  }

  // The rank's Counts.
  template <class M>
  void total(M& m) {
    const Table table = layout_.histogram();
    uint32_t* const counts = words(layout_.counts_at(rank_, rank_, m.epoch()));
    std::memset(counts, 0, layout_.counts_bytes());
    for (int phase = 0; phase < layout_.num_phases(); ++phase) {
      const int next = (phase + 1) * layout_.slices_per_phase();  // the first slice behind it
      const Place ends = next < num_slices() ? table.slice_at(rank_, next) : table.totals_at(rank_);
      std::ranges::copy(words_of(m, ends, table.words), counts + layout_.pairs_word(phase, 0));
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
    const Table table = layout_.histogram();
    const std::vector<uint32_t> all = words_of(m, table.totals_at(rank_), table.words);
    // Where the slice's first pair for each expert, and its first token for each node, go.
    std::vector<uint32_t> next = words_of(m, table.slice_at(rank_, slice), table.words);
    load_routed(m, slice);
    uint32_t pairs = 0;
    for (int expert = 0; expert < layout_.experts; ++expert) next[expert] += std::exchange(pairs, pairs + all[expert]);
    this->for_each_token(slice, [&](int64_t token) {
      this->for_each_slot(token, [&](int slot, int expert) {
        if (!comes_first(token, slot, expert)) return;
        const int node = layout_.node_of_expert(expert);
        const uint32_t place = next[layout_.experts + node]++;
        write_word(m, layout_.crossing_at(rank_, node, place), static_cast<uint32_t>(token));
        write_word(m, layout_.crossed_at(rank_, node, token), place);
      });
      this->for_each_slot(token, [&](int slot, int expert) {
        const int node = layout_.node_of_expert(expert);
        const bool stays = node == layout_.world.node_of(rank_);
        const int64_t pair = token * layout_.topk + slot;
        const Place at = layout_.list_at(rank_, next[expert]++);
        *reinterpret_cast<Route*>(resolve_(at)) = {
            stays ? static_cast<uint32_t>(token) : *words(layout_.crossed_at(rank_, node, token)),
            static_cast<uint32_t>(rank_), static_cast<uint32_t>(pair), this->weight_of(token, slot)};
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

 private:
  // Of the plan.
  template <class M>
  void store_words(M& m, uint64_t first, uint64_t count) {
    m.store(layout_.plan_at(rank_, first), count * kWord);
  }
  // The ids of the slice, if some may have been dropped.
  template <class M>
  void load_routed(M& m, int slice) {
    const Range tokens = layout_.tokens_of_slice(operands_.tokens, slice);
    if (layout_.drops) m.load(layout_.routed_at(rank_, tokens.first), tokens.count * layout_.named_slots() * kWord);
  }

  // Whether the token crosses to another node for this pair: for the first slot that names an expert there.
  bool comes_first(int64_t token, int slot, int expert) {
    const int node = layout_.node_of_expert(expert);
    bool is_first = node != layout_.world.node_of(rank_);
    this->for_each_slot(token, [&](int other, int that) {
      if (other < slot && layout_.node_of_expert(that) == node) is_first = false;
    });
    return is_first;
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
};

}  // namespace mk::moe

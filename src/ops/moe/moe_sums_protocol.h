// SPDX-License-Identifier: MIT
// ops/moe/moe_sums_protocol.h — the last part of moe_layer_protocol.h: whoever delivered a token sums its results.
#pragma once

#include <concepts>

#include "base/macros.h"
#include "core/machine.h"
#include "core/value_list.h"
#include "core/wait_due.h"
#include "ops/moe/moe_dispatch_protocol.h"
#include "ops/moe/moe_layer_layout.h"

namespace mk::moe {

template <class L>
concept AnyLayerLayout = std::derived_from<L, LayerLayout>;

// All results of a batch that this rank delivered.
MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_batch(M& m, const LayerLayout& layout, int batch) {
  if (m.read(layout.due_back_at(m.rank(), batch, 2)) == 0) return true;
  const auto times = static_cast<uint64_t>(layout.col_blocks());
  return wait_due(m, {layout.returned(batch), layout.due_back_at(m.rank(), batch), times}, batch);
}

// Hands results of slots [first, first + count) of a token to the body.  experts[i] is the expert that a slot names, or
// -1, and rows[i] its row there.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body, class List>
MK_HD void add_results(M& m, const L& layout, int first, int count, const List& experts, const List& rows, Body& body) {
  const int here = m.world().node_of(m.rank());
  for (int i = 0; i < count; ++i) {
    const int expert = static_cast<int>(experts[i]);
    if (expert < 0 || layout.node_of_expert(expert) != here) continue;
    const Place from = layout.result_at(layout.rank_of_expert(expert), rows[i]);
    m.load(from, layout.row_bytes());
    body.add(from);
    if constexpr (L::kHasScores) {
      const Place score = layout.score_at(layout.rank_of_expert(expert), rows[i]);
      m.load(score, sizeof(float));
      body.take_score(first + i, score);
    }
  }
}

// Of slots [first, first + count) of a token of the rail peer in `node`, or of an own one: rows of those whose expert
// is in this node.
MK_PROTOCOL
template <Machine M, class List>
MK_HD auto rows_of_slots(M& m, const LayerLayout& layout, int node, int64_t token, int first, int count,
                         const List& experts) {
  const int here = m.world().node_of(m.rank());
  return read_places(m, count, [&](int i) {
    const int expert = static_cast<int>(experts.own(i));
    if (expert < 0 || layout.node_of_expert(expert) != here) return kNowhere;
    return layout.place_at(m.rank(), node, token * layout.topk + first + i);
  });
}

// Chunk `chunk` of tokens that came from the node, whose results are here.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD bool send_sums(M& m, const L& layout, int node, int chunk, int64_t rows, Body& body) {
  const int here = m.world().node_of(m.rank());
  const int peer = m.world().rank_at(node, m.world().local_of(m.rank()));
  const Range range = block_range(rows, layout.chunk_rows, chunk);
  const int count = static_cast<int>(range.count);
  const auto tokens = m.read_list(layout.record_in_at(m.rank(), node, range.first), count, layout.record_bytes());
  const auto experts_of = [&](int i, int first) {
    const int some = min_of(kMostValues, layout.topk - first);
    return m.read_list(layout.record_in_at(m.rank(), node, range.first + i, 1 + first), some, kWord);
  };
  const auto rows_of = [&](int i, int first, const auto& experts) {
    const int some = min_of(kMostValues, layout.topk - first);
    return rows_of_slots(m, layout, node, tokens[i], first, some, experts);
  };
  // Of the next token rows, and of the one after it experts, are under way while a token is summed.
  const auto ahead = [&](int i) { return min_of(i, count - 1); };
  auto experts = experts_of(0, 0);
  auto next_experts = experts_of(ahead(1), 0);
  auto results = rows_of(0, 0, experts);
  for (int i = 0; i < count; ++i) {
    const Place sum = layout.sum_out_at(m.rank(), node, range.first + i);
    const auto next_results = rows_of(ahead(i + 1), 0, next_experts);
    const auto later_experts = experts_of(ahead(i + 2), 0);
    body.clear_sum();
    add_results(m, layout, 0, min_of(kMostValues, layout.topk), experts, results, body);
    for (int first = kMostValues; first < layout.topk; first += kMostValues) {
      const auto more = experts_of(i, first);
      add_results(m, layout, first, min_of(kMostValues, layout.topk - first), more, rows_of(i, first, more), body);
    }
    body.store_sum(sum);
    m.store(sum, layout.sum_bytes());
    experts = next_experts;
    next_experts = later_experts;
    results = next_results;
  }
  return m.put(Put{.from = layout.sum_out_at(m.rank(), node, range.first),
                   .to = layout.sum_in_at(peer, here, range.first),
                   .bytes = static_cast<uint64_t>(range.count) * layout.sum_bytes(),
                   .signal = {peer, layout.sums_landed(here, chunk)},
                   .stamp = here_in(m.epoch())},
               chunk);
}

// Of tokens that came, in the order in which they did.  A chunk may begin with tokens of phases before its own: their
// results have been waited for.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD bool sum_for_peers(M& m, const L& layout, const Post& post, Body& body) {
  const int here = m.world().node_of(m.rank());
  if (!wait_for_plan(m, layout)) return false;
  const bool is_refused = m.read(layout.plan_at(m.rank(), layout.status_word())) != 0;
  for (int phase = 0; phase < layout.num_phases(); ++phase) {
    for (int step = 1; step < m.world().nodes; ++step) {
      const int node = layout.source_node_at(m.rank(), step);
      const int peer = m.world().rank_at(node, m.world().local_of(m.rank()));
      const int all = layout.crossing_word(layout.last_phase(), here);
      const int64_t rows = m.read(layout.counts_at(m.rank(), peer, m.epoch(), all));
      if (rows == 0) continue;
      if (phase == 0 && !m.wait_stamp(layout.records_landed(node), here_in(m.epoch()), -1)) return false;
      if (is_refused) continue;
      if (!wait_for_batch(m, layout, layout.batch_of(phase, step))) return false;
      const bool is_sent = for_each_own(chunks_of_phase(m, layout, peer, here, phase), post,
                                        [&](int chunk) { return send_sums(m, layout, node, chunk, rows, body); });
      if (!is_sent) return false;
    }
  }
  return true;
}

// Of an own token.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD bool has_expert_in(M& m, const L& layout, int node, int64_t token, Body& body) {
  int found = 0;
  for (int first = 0; first < layout.topk; first += kMostValues) {
    const int some = min_of(kMostValues, layout.topk - first);
    const auto experts =
        list_of(m, some, [&](int i) { return static_cast<uint32_t>(body.expert_of(token, first + i)); });
    found += experts.count_if(some, [&](uint32_t id) {
      const int expert = static_cast<int>(id);
      return expert >= 0 && layout.node_of_expert(expert) == node;
    });
  }
  return found > 0;
}

// Of a token of this rank.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD bool sum_own(M& m, const L& layout, int64_t token, Body& body) {
  const int here = m.world().node_of(m.rank());
  body.clear_sum();
  for (int first = 0; first < layout.topk; first += kMostValues) {
    const int some = min_of(kMostValues, layout.topk - first);
    const auto experts =
        list_of(m, some, [&](int i) { return static_cast<uint32_t>(body.expert_of(token, first + i)); });
    add_results(m, layout, first, some, experts, rows_of_slots(m, layout, here, token, first, some, experts), body);
  }
  for (int step = 1; step < m.world().nodes; ++step) {
    const int node = wrap(here + step, m.world().nodes);
    if (!has_expert_in(m, layout, node, token, body)) continue;
    const int64_t index = m.read(layout.crossed_at(m.rank(), node, token));
    const int chunk = layout.by.chunk_rows.quotient(static_cast<int>(index));
    if (!m.wait_stamp(layout.sums_landed(node, chunk), here_in(m.epoch()), token)) return false;
    const Place from = layout.sum_in_at(m.rank(), node, index);
    m.load(from, layout.sum_bytes());
    body.add(from);
    if constexpr (L::kHasScores) {
      for (int slot = 0; slot < layout.topk; ++slot) {
        const int expert = body.expert_of(token, slot);
        if (expert >= 0 && layout.node_of_expert(expert) == node) body.take_score(slot, layout.score_in(from, slot));
      }
    }
  }
  body.write_out(token);
  return true;
}

// Until all results of own tokens in this node are here.  Most tokens have one among the last, so nobody waits for
// those of a single one.  False also if the launch was refused.
MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_results(M& m, const LayerLayout& layout) {
  if (!wait_for_plan(m, layout)) return false;
  if (m.read(layout.plan_at(m.rank(), layout.status_word())) != 0) return false;
  if (m.world().nodes > 1 && !wait_for_lists(m, layout)) return false;  // they say where a token crossed
  return wait_for_batch(m, layout, 0);
}

// This worker's part of the rank's own tokens, after wait_for_results.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD bool sum_tokens(M& m, const L& layout, const Post& post, Body& body) {
  for (int64_t token = post.index; token < body.tokens(); token += post.count) {
    if (!sum_own(m, layout, token, body)) return false;
  }
  return true;
}

}  // namespace mk::moe

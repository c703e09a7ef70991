// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward_layout.cc — see ring_attention_backward_layout.h.
#include "ops/attention/ring_attention_backward_layout.h"

#include <fmt/format.h>

namespace mk::attention {

KeptBackwardLayout make_backward_layout(const Problem& problem, const BackwardCut& cut, const Roster& roles) {
  const KeptLayout forward = make_layout(problem,
                                         {.tile_rows = cut.block_rows,
                                          .key_rows = cut.key_rows,
                                          .part_bytes = cut.part_bytes,
                                          .chunks_of_piece = cut.chunks_of_piece,
                                          .heads_together = cut.heads_together,
                                          .slots = cut.slots},
                                         roles);
  KeptBackwardLayout layout;
  static_cast<Layout&>(layout) = forward;
  layout.spans_here = forward.spans_here;
  layout.heads_together = min_of(cut.heads_together, layout.batch * layout.kv_heads);
  layout.key_rows = cut.key_rows;
  layout.share_rows = min_of(cut.share_rows, layout.piece_length);
  layout.shares_of_piece = ceil_div(layout.piece_length, layout.share_rows);
  layout.shares_of_bundle = ceil_div(layout.shares_of_piece, cut.chunks_of_piece);
  layout.bundles_of_piece = ceil_div(layout.shares_of_piece, layout.shares_of_bundle);
  return layout;
}

std::vector<uint64_t> window_bytes(const BackwardLayout& layout) {
  std::vector<uint64_t> bytes = window_bytes(static_cast<const Layout&>(layout));
  bytes.pop_back();  // no state: a tile is visited once
  const uint64_t slot = 2 * layout.gradient_half_bytes();
  const uint64_t blocks = layout.most_tiles();
  bytes.push_back(layout.turns_at(0, static_cast<int>(blocks)).offset);
  bytes.push_back(blocks * layout.query_sums_bytes());
  bytes.push_back(layout.collects() ? slot : 0);
  bytes.push_back(layout.world.ranks > 1 ? layout.local_slots * slot : 0);
  bytes.push_back(layout.rail_slots * slot);
  bytes.push_back(layout.rail_slots * slot);
  return bytes;
}

std::string signal_name(const BackwardLayout& layout, uint32_t signal) {
  const auto nodes = static_cast<uint32_t>(layout.world.nodes);
  const auto bundles = static_cast<uint32_t>(layout.num_bundles());
  if (signal < layout.made(0, 0, 0)) return signal_name(static_cast<const Layout&>(layout), signal);
  if (signal < layout.inbox_room(0, 0)) {
    const uint32_t number = signal - layout.made(0, 0, 0);
    return fmt::format("made[local {}, keys of node {}, bundle {}]", number / bundles / nodes, number / bundles % nodes,
                       number % bundles);
  }
  if (signal < layout.landed(0, 0)) {
    const uint32_t number = signal - layout.inbox_room(0, 0);
    return fmt::format("inbox_room[peer {}, keys of node {}]", number / nodes, number % nodes);
  }
  if (signal < layout.landing_room(0)) {
    const uint32_t number = signal - layout.landed(0, 0);
    return fmt::format("landed[node {}, bundle {}]", number / bundles, number % bundles);
  }
  if (signal < layout.taken(0)) return fmt::format("landing_room[node {}]", signal - layout.landing_room(0));
  if (signal < layout.noted()) return fmt::format("taken[node {}]", signal - layout.taken(0));
  if (signal == layout.noted()) return "noted";
  return fmt::format("turn[block {}]", signal - layout.turn(0));
}

namespace {

// Gradients of keys and values, of so many rows of each batch.
uint64_t gradient_bytes(const BackwardLayout& layout, int64_t rows) {
  return static_cast<uint64_t>(2 * layout.batch * layout.kv_heads * rows * layout.gradient_row_bytes());
}

}  // namespace

uint64_t backward_nvlink_bytes(const BackwardLayout& layout, int rank) {
  int64_t rows = 0;
  for (int step = 0; step < layout.num_steps(); ++step) {
    if (step % layout.world.ranks == 0) continue;
    for (int piece = 0; piece < layout.pieces(); ++piece) {
      rows += layout.need(rank, source_at(layout.world, rank, step), piece).count;
    }
  }
  return nvlink_bytes(layout, rank) + gradient_bytes(layout, rows);
}

uint64_t backward_network_bytes(const BackwardLayout& layout, int rank) {
  int64_t rows = 0;
  for (int round = 1; round < layout.world.nodes; ++round) {
    for (int piece = 0; piece < layout.pieces(); ++piece) {
      rows += layout.need_of_node(layout.world.node_of(rank), layout.round_source(rank, round), piece).count;
    }
  }
  return network_bytes(layout, rank) + gradient_bytes(layout, rows);
}

}  // namespace mk::attention

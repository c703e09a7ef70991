// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_layout.cc — see ring_attention_layout.h.
#include "ops/attention/ring_attention_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace mk::attention {

KeptLayout make_layout(const Problem& problem, const Cut& cut, const Roster& roles) {
  const RingAttentionShape& shape = problem.shape;
  const WorldShape& world = problem.world;
  KeptLayout layout;
  layout.world = world;
  layout.mask = {problem.mask.kind, problem.mask.window.value_or(SeenKeys::kNoWindow)};
  layout.order = problem.order;
  layout.batch = static_cast<int>(shape.batch);
  layout.heads = static_cast<int>(shape.heads);
  layout.kv_heads = static_cast<int>(shape.kv_heads);
  layout.dim = static_cast<int>(shape.dim);
  layout.element_bytes = static_cast<int>(size_of(shape.dtype));
  layout.rows = shape.rows;
  layout.piece_length = static_cast<int>(shape.rows / layout.pieces());
  layout.tile_rows = cut.tile_rows;
  layout.tiles_of_piece = ceil_div(layout.piece_length, layout.tile_rows);
  layout.spans.tile_rows[kQueryCut] = cut.tile_rows;
  layout.spans.tile_rows[kKeyCut] = cut.key_rows;
  layout.keep(make_spans(problem.cu_seqlens, layout.piece_rows(), {cut.tile_rows, cut.key_rows}));
  for (int rank = 0; rank < world.size(); ++rank) {
    layout.most_tiles_of_head = std::max(layout.most_tiles_of_head, layout.tiles_of_head(rank));
  }
  const int64_t part_rows = std::max<int64_t>(1, cut.part_bytes / (2 * layout.key_row_bytes()));
  layout.part_rows = static_cast<int>(std::min(part_rows, layout.piece_rows()));
  layout.parts_of_piece = ceil_div(layout.piece_length, layout.part_rows);
  layout.parts_of_chunk = ceil_div(layout.parts_of_piece, cut.chunks_of_piece);
  layout.chunks_of_piece = ceil_div(layout.parts_of_piece, layout.parts_of_chunk);
  layout.heads_together = static_cast<int>(std::min<int64_t>(cut.heads_together, shape.batch * shape.heads));
  layout.local_slots = std::min(cut.slots, (world.ranks - 1) * world.nodes);
  layout.rail_slots = std::min(cut.slots, world.nodes - 1);
  layout.own_keys = layout.own_values = without_gaps(shape.rows, shape.kv_heads, shape.dim);
  layout.roles = roles;
  return layout;
}

std::vector<uint64_t> window_bytes(const Layout& layout) {
  const uint64_t slot = layout.slot_bytes();
  const bool keeps_state = layout.world.size() > 1;
  return {layout.world.nodes > 1 ? slot : 0, layout.rail_slots * slot, layout.local_slots * slot,
          keeps_state ? static_cast<uint64_t>(layout.most_tiles() * layout.tile_state_bytes()) : 0};
}

std::string signal_name(const Layout& layout, uint32_t signal) {
  if (signal < layout.room(0, 0)) {
    const uint32_t chunks = layout.num_chunks();
    return fmt::format("arrived[rank {}, chunk {}]", signal / chunks, signal % chunks);
  }
  if (signal < layout.rail_room(0)) {
    const uint32_t number = signal - layout.room(0, 0);
    const uint32_t nodes = layout.world.nodes;
    return fmt::format("room[peer {}, keys of node {}]", number / nodes, number % nodes);
  }
  if (signal < layout.used(0)) return fmt::format("rail_room[node {}]", signal - layout.rail_room(0));
  return fmt::format("used[node {}]", signal - layout.used(0));
}

namespace {

// Keys and values of so many rows of each batch.
uint64_t bytes_of(const Layout& layout, int64_t rows) {
  return static_cast<uint64_t>(2 * layout.batch * rows * layout.key_row_bytes());
}

}  // namespace

uint64_t nvlink_bytes(const Layout& layout, int rank) {
  const WorldShape& world = layout.world;
  int64_t rows = 0;
  for (int node = 0; node < world.nodes; ++node) {
    const int source = world.rank_at(node, world.local_of(rank));
    for (int step = 1; step < world.ranks; ++step) {
      for (int piece = 0; piece < layout.pieces(); ++piece) {
        rows += layout.need(peer_at(world, rank, step), source, piece).count;
      }
    }
  }
  return bytes_of(layout, rows);
}

uint64_t network_bytes(const Layout& layout, int rank) {
  const WorldShape& world = layout.world;
  int64_t rows = 0;
  for (int step = 1; step < world.nodes; ++step) {
    const int node = world.node_of(rail_peer_at(world, rank, step));
    for (int piece = 0; piece < layout.pieces(); ++piece) rows += layout.need_of_node(node, rank, piece).count;
  }
  return bytes_of(layout, rows);
}

}  // namespace mk::attention

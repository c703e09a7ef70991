// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward_tiles.h — how the work of attention's gradients is cut on a rank.
//
//   block       rows of queries of one piece, batch and head
//   key tile    rows of keys of one piece, batch and key head that a rank takes at a step: what a compute worker has in
//               hand.  All blocks that see it pass by; then its gradients are whole, as far as this rank's queries go.
//   turn        many tiles add to a block's query gradients: one after the other, in the order of steps and tiles
#pragma once

#include <cstdint>

#include "ops/attention/ring_attention_layout.h"

namespace mk::attention {

// Queries: `rows` are rows of the rank, the first of them at `position`.
struct QueryBlock {
  int number = 0;  // of all blocks of the rank
  int batch = 0;
  int head = 0;
  Range rows;
  int64_t position = 0;

  MK_HD constexpr Range positions() const { return {position, rows.count}; }
};

// Keys: `rows` are rows of their rank, the first of them at `position`.
struct KeyTile {
  int64_t number = 0;  // of the step's tiles, in the order of visit
  int batch = 0;
  int kv_head = 0;
  int piece = 0;
  int index = 0;  // in what is needed of the piece
  Range rows;
  int64_t position = 0;

  MK_HD constexpr Range positions() const { return {position, rows.count}; }
};

// Of an addition to a block: how many come before in a launch, and how many there are.
struct Turn {
  int turn = 0;
  int turns = 0;
};

// From `begin` to before `end`.
struct IndexRange {
  int begin = 0;
  int end = 0;

  MK_HD constexpr int count() const { return max_of(0, end - begin); }
};

struct BackwardTiles : Layout {
  int key_rows = 1;  // of a tile

  // ---- blocks of queries: tile_rows of a piece each ----

  MK_HD constexpr int num_blocks(int rank) const { return static_cast<int>(num_tiles(rank)); }
  // Blocks of a piece follow those of the piece before, blocks of a head those of the head before.
  MK_HD constexpr int first_block(int rank, int of_batch, int head, int piece) const {
    return (of_batch * heads + head) * tiles_of_head(rank) + (piece > 0 ? tiles_in(rank, 0) : 0);
  }
  MK_HD constexpr QueryBlock block_at(int rank, int number) const {
    const int per_head = tiles_of_head(rank);
    const int head = number / per_head;
    const int in_head = number - head * per_head;
    const int of_first = tiles_in(rank, 0);
    const int piece = in_head < of_first ? 0 : 1;
    const Range positions = tile_positions(rank, piece, in_head - piece * of_first);
    return {
        number, head / heads, head % heads, {row_of(rank, piece, positions.first), positions.count}, positions.first};
  }

  // ---- tiles of keys ----

  MK_HD constexpr int key_tiles_of(int rank, int source, int piece) const {
    const Range needed = need(rank, source, piece);
    return spans.are_packed() ? spans.tiles_in(kKeyCut, needed) : ceil_div(static_cast<int>(needed.count), key_rows);
  }
  // Position by position: of the tile of needed keys that has it, the number in what is needed.
  MK_HD constexpr int key_tile_of(const Range& needed, int64_t position) const {
    if (!spans.are_packed()) return static_cast<int>(position - needed.first) / key_rows;
    return spans.tile_of(kKeyCut, position) - spans.tile_of(kKeyCut, needed.first);
  }
  MK_HD constexpr Range key_tile_positions(const Range& needed, int index) const {
    if (spans.are_packed()) return spans.tile_in(kKeyCut, needed, index);
    const Range within = block_range(needed.count, key_rows, index);
    return {needed.first + within.first, within.count};
  }
  MK_HD constexpr int key_tiles_of_head(int rank, int step) const {
    const int source = source_at(world, rank, step);
    int tiles = 0;
    MK_LOOP
    for (int piece = 0; piece < pieces(); ++piece) tiles += key_tiles_of(rank, source, piece);
    return tiles;
  }
  MK_HD constexpr int64_t num_key_tiles(int rank, int step) const {
    return int64_t{batch} * kv_heads * key_tiles_of_head(rank, step);
  }
  // Groups of heads, one after the other; in a group piece after piece, the first rows first: so tiles come to a block
  // in their order.
  MK_HD constexpr KeyTile key_tile_at(int rank, int step, int64_t number) const {
    const int source = source_at(world, rank, step);
    const int per_head = key_tiles_of_head(rank, step);
    const int group = static_cast<int>(number) / (heads_together * per_head);
    const int inside = static_cast<int>(number) - group * heads_together * per_head;
    const int together = min_of(heads_together, batch * kv_heads - group * heads_together);
    const int head = group * heads_together + inside % together;
    const int of_first = key_tiles_of(rank, source, 0);
    const int in_head = inside / together;
    const int piece = in_head < of_first ? 0 : 1;
    const int index = in_head - piece * of_first;
    const Range positions = key_tile_positions(need(rank, source, piece), index);
    return {number,         head / kv_heads, head % kv_heads,
            piece,          index,           {row_of(source, piece, positions.first), positions.count},
            positions.first};
  }

  // Queries of an own piece that may see the tile, which is of one sequence.
  MK_HD constexpr Range queries_for(int rank, int own_piece, const KeyTile& tile) const {
    return spans.in_sequences_of(tile.positions(), positions_of(rank, own_piece));
  }
  // Block of a piece that has a position, counted in the piece.
  MK_HD constexpr int block_of(int rank, int piece, int64_t position) const {
    const int64_t first = positions_of(rank, piece).first;
    if (!spans.are_packed()) return static_cast<int>(position - first) / tile_rows;
    return spans.tile_of(kQueryCut, position) - spans.tile_of(kQueryCut, first);
  }
  // Blocks of an own piece that have queries which see the tile, counted in the piece.
  MK_HD constexpr IndexRange blocks_that_see(int rank, int own_piece, const KeyTile& tile) const {
    const Range queries = queries_for(rank, own_piece, tile);
    int64_t first = queries.first;
    int64_t end = queries.first + queries.count;
    if (mask.kind == MaskKind::kCausal) {
      const int64_t last = tile.position + tile.rows.count - 1;  // of the keys
      first = max_of(first, tile.position);
      end = min_of(end, last + mask.window);
    }
    if (first >= end) return {};
    return {block_of(rank, own_piece, first), block_of(rank, own_piece, end - 1) + 1};
  }
  // Tiles of a piece of the step's source that a block sees.
  MK_HD constexpr IndexRange tiles_seen_by(int rank, const QueryBlock& block, int step, int piece) const {
    const Range needed = need(rank, source_at(world, rank, step), piece);
    if (needed.count == 0) return {};
    const Range keys = seen(block.positions(), needed);
    if (keys.count == 0) return {};
    return {key_tile_of(needed, keys.first), key_tile_of(needed, keys.first + keys.count - 1) + 1};
  }
  // Additions to a block's query gradients: those of a step, all, and that of a tile.
  MK_HD constexpr int turns_in(int rank, const QueryBlock& block, int step) const {
    int turns = 0;
    MK_LOOP
    for (int piece = 0; piece < pieces(); ++piece) turns += tiles_seen_by(rank, block, step, piece).count();
    return turns;
  }
  MK_HD constexpr int turns_of(int rank, const QueryBlock& block) const {
    int turns = 0;
    MK_LOOP
    for (int step = 0; step < num_steps(); ++step) turns += turns_in(rank, block, step);
    return turns;
  }
  // The turn of a piece's tile of a step is its index and this, and what steps before add.
  MK_HD constexpr int turn_in_step(int rank, const QueryBlock& block, int step, int piece) const {
    const int in_first = piece > 0 ? tiles_seen_by(rank, block, step, 0).count() : 0;
    return in_first - tiles_seen_by(rank, block, step, piece).begin;
  }
  MK_HD constexpr Turn turn_of(int rank, const QueryBlock& block, int step, const KeyTile& tile) const {
    Turn of;
    MK_LOOP
    for (int any = 0; any < num_steps(); ++any) {
      if (any == step) of.turn = of.turns + turn_in_step(rank, block, step, tile.piece) + tile.index;
      of.turns += turns_in(rank, block, any);
    }
    return of;
  }
};

}  // namespace mk::attention

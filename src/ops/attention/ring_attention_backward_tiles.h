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

// From `begin` to before `end`.
struct IndexRange {
  int begin = 0;
  int end = 0;

  MK_HD constexpr int count() const { return max_of(0, end - begin); }
};

struct BackwardTiles : Layout {
  int key_rows = 1;  // of a tile

  // ---- blocks of queries: tile_rows of a piece each ----

  MK_HD constexpr int num_blocks() const { return batch * heads * pieces() * tiles_of_piece; }
  MK_HD constexpr int first_block(int of_batch, int head, int piece) const {
    return ((of_batch * heads + head) * pieces() + piece) * tiles_of_piece;
  }
  MK_HD constexpr QueryBlock block_at(int rank, int number) const {
    const int of_piece = number / tiles_of_piece;
    const int of_head = of_piece / pieces();
    const int piece = of_piece % pieces();
    const Range in_piece = block_range(piece_rows(), tile_rows, number % tiles_of_piece);
    return {number,
            of_head / heads,
            of_head % heads,
            {piece * piece_rows() + in_piece.first, in_piece.count},
            positions_of(rank, piece).first + in_piece.first};
  }

  // ---- tiles of keys ----

  MK_HD constexpr int key_tiles_of(int rank, int source, int piece) const {
    return ceil_div(static_cast<int>(need(rank, source, piece).count), key_rows);
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
    const Range needed = need(rank, source, piece);
    const Range within = block_range(needed.count, key_rows, index);
    const int64_t position = needed.first + within.first;
    return {number,          head / kv_heads,
            head % kv_heads, piece,
            index,           {piece * piece_rows() + position - positions_of(source, piece).first, within.count},
            position};
  }

  // Blocks of an own piece that have queries which see the tile, counted in the piece.
  MK_HD constexpr IndexRange blocks_that_see(int rank, int own_piece, const KeyTile& tile) const {
    const Range queries = positions_of(rank, own_piece);
    if (mask.kind == MaskKind::kFull) return {0, tiles_of_piece};
    const int64_t first = max_of(queries.first, tile.position);
    const int64_t last = tile.position + tile.rows.count - 1;  // of the keys
    const int64_t end = min_of(queries.first + queries.count, last + mask.window);
    if (first >= end) return {};
    return {static_cast<int>((first - queries.first) / tile_rows),
            static_cast<int>((end - 1 - queries.first) / tile_rows) + 1};
  }
  // Tiles of a piece of the step's source that a block sees.
  MK_HD constexpr IndexRange tiles_seen_by(int rank, const QueryBlock& block, int step, int piece) const {
    const Range needed = need(rank, source_at(world, rank, step), piece);
    if (needed.count == 0) return {};
    const Range seen = mask.seen(block.positions(), needed);
    if (seen.count == 0) return {};
    return {static_cast<int>((seen.first - needed.first) / key_rows),
            static_cast<int>((seen.first + seen.count - 1 - needed.first) / key_rows) + 1};
  }
  // Additions to a block's query gradients: those of a step, of the steps before, of a step before a tile, and all.
  MK_HD constexpr int turns_in(int rank, const QueryBlock& block, int step) const {
    int turns = 0;
    MK_LOOP
    for (int piece = 0; piece < pieces(); ++piece) turns += tiles_seen_by(rank, block, step, piece).count();
    return turns;
  }
  MK_HD constexpr int turns_before_step(int rank, const QueryBlock& block, int step) const {
    int turns = 0;
    MK_LOOP
    for (int before = 0; before < step; ++before) turns += turns_in(rank, block, before);
    return turns;
  }
  MK_HD constexpr int turn_in_step(int rank, const QueryBlock& block, int step, const KeyTile& tile) const {
    const int before = tile.piece > 0 ? tiles_seen_by(rank, block, step, 0).count() : 0;
    return before + tile.index - tiles_seen_by(rank, block, step, tile.piece).begin;
  }
  MK_HD constexpr int turns_of(int rank, const QueryBlock& block) const {
    return turns_before_step(rank, block, num_steps());
  }
};

}  // namespace mk::attention

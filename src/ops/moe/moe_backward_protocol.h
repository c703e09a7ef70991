// SPDX-License-Identifier: MIT
// ops/moe/moe_backward_protocol.h — who waits for what, and tells whom, in the backward pass of a layer of experts.
//
// What moe_layer_protocol.h says, of dout in place of x and of dx in place of results.  The first GEMM is dout · w2 and
// makes [dgate, dup] and what the weights' gradients need, the second is [dgate, dup] · w13.  Then
//
//   role       waits for                                          tells
//   compute    activated[block], of all blocks of an expert,      nothing: dw13 and dw2 are written
//              of a tile of its weights' gradients
//
// Tiles of weights come after all others, so that rows of dx travel meanwhile.
//
// A body has, besides what moe_layer_protocol.h asks for, multiply(tile) of a WeightTile.
#pragma once

#include "ops/moe/moe_backward_layout.h"
#include "ops/moe/moe_layer_protocol.h"

namespace mk::moe {

// A tile of dw13 or, if is_second, of dw2: a product over all rows of an expert.  `block` is the first of them.
struct WeightTile : LayerTile {
  int row_block = 0;  // of the gradient
};

// Calls visit(expert, its first row, its rows, its first block) for all experts of the rank, in order, until it returns
// false.
MK_PROTOCOL
template <Machine M, class Visit>
MK_HD bool for_each_expert(M& m, const Layout& layout, Visit&& visit) {
  const int own = m.world().local_of(m.rank()) * layout.local_experts();
  const auto column = [&](int first, int some, int word) {
    return m.read_list(layout.plan_at(m.rank(), layout.expert_word(own + first) + word), some, 4 * kWord);
  };
  for (int first = 0; first < layout.local_experts(); first += kMostValues) {
    const int some = min_of(kMostValues, layout.local_experts() - first);
    const auto first_rows = column(first, some, 0);
    const auto rows = column(first, some, 1);
    const auto first_blocks = column(first, some, 2);
    for (int i = 0; i < some; ++i) {
      if (!visit(first + i, int64_t{first_rows[i]}, int64_t{rows[i]}, static_cast<int>(first_blocks[i]))) return false;
    }
  }
  return true;
}

// Calls body(tile) for the tiles of one worker, in order, until body returns false.  After for_each_tile.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool for_each_weight_tile(M& m, const BackwardLayout& layout, const Post& post, Body&& body) {
  const GridPos grids[2] = {layout.weight_blocks(false), layout.weight_blocks(true)};
  const int64_t first = int64_t{grids[0].row} * grids[0].col;
  const int64_t each = first + int64_t{grids[1].row} * grids[1].col;  // tiles of an expert
  int64_t next = post.index;
  return for_each_expert(m, layout, [&](int expert, int64_t first_row, int64_t rows, int first_block) {
    for (; next < (expert + 1) * each; next += post.count) {
      const int64_t in_expert = next - expert * each;
      const bool is_second = in_expert >= first;
      const GridPos& grid = grids[is_second ? 1 : 0];
      const GridPos at =
          banded(static_cast<int>(is_second ? in_expert - first : in_expert), grid.row, grid.col, kBandBlocks);
      WeightTile tile;
      tile.number = next;
      tile.expert = expert;
      tile.block = first_block;
      tile.row = first_row;
      tile.rows = static_cast<int>(rows);
      tile.col_block = at.col;
      tile.is_second = is_second;
      tile.row_block = at.row;
      if (!body(tile)) return false;
    }
    return true;
  });
}

// The load job's part.
MK_PROTOCOL
template <Machine M>
MK_HD bool load_step(M& m, const BackwardLayout& layout, const WeightTile& tile) {
  const int blocks = static_cast<int>(ceil_div<int64_t>(tile.rows, layout.tile_m));
  for (int first = 0; first < blocks; first += kMostValues) {
    const auto due = [&](int i) {
      const int block = tile.block + first + i;
      return DueWait{layout.activated(block), layout.plan_at(m.rank(), layout.due_word(block)),
                     static_cast<uint64_t>(layout.act_blocks())};
    };
    if (!wait_each_due(m, min_of(kMostValues, blocks - first), due, tile.number)) return false;
  }
  if (tile.rows == 0) return true;
  m.load(layout.row_at(m.rank(), tile.row, tile.is_second ? kDoutPart : kXPart), tile.rows * layout.row_bytes());
  if (tile.is_second) {
    m.load(layout.scaled_at(m.rank(), tile.row), tile.rows * layout.scaled_bytes());
  } else {
    m.load(layout.activation_at(m.rank(), tile.row), tile.rows * layout.act_bytes());
  }
  return true;
}

// After the store of a tile of the first GEMM: the body has written what it makes of the tile's columns.
MK_PROTOCOL
template <Machine M>
MK_HD void tell_activated(M& m, const BackwardLayout& layout, const LayerTile& tile) {
  const Range cols = block_range(layout.inter, layout.act_tile_n, tile.col_block);
  const uint64_t bytes = cols.count * layout.element_bytes;
  const auto from_col = [&](Place row, int64_t col) {
    row.offset += col * layout.element_bytes;
    return row;
  };
  for (const int64_t col : {cols.first, layout.inter + cols.first}) {
    say_stored(m, tile, bytes, [&](int64_t row) { return from_col(layout.activation_at(m.rank(), row), col); });
  }
  say_stored(m, tile, bytes, [&](int64_t row) { return from_col(layout.scaled_at(m.rank(), row), cols.first); });
  say_stored(m, tile, sizeof(float), [&](int64_t row) { return layout.part_at(m.rank(), row, tile.col_block); });
  m.add(Signal{m.rank(), layout.activated(tile.block)}, tile.rows);
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD void compute(M& m, const BackwardLayout& layout, const Post& post, Body& body) {
  const bool is_done =
      compute_tiles(m, layout, post, body) && for_each_weight_tile(m, layout, post, [&](const WeightTile& tile) {
        if (!load_step(m, layout, tile)) return false;
        m.note(Event{EventKind::kTileBegin, tile.number, m.rank()});
        body.multiply(tile);
        m.note(Event{EventKind::kTileEnd, tile.number, m.rank()});
        return true;
      });
  if (is_done && wait_for_results(m, layout)) sum_tokens(m, layout, post, body);
}

}  // namespace mk::moe

// SPDX-License-Identifier: MIT
// ops/tile_image.h — a matrix of partial results as it lies in a window: tile after tile, no padding.
//
// A tile is one contiguous range of bytes, so it moves as one store, one copy or one put.  Tiles lie in the order in
// which they are made: band after band, and column after column in a band.  So tiles made one after the other can move
// together. The target decides how elements lie inside a tile (on a CPU: row by row).
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/math.h"
#include "core/tile.h"

namespace mk {

// Which rows C has: those of one image, or those of the images of all owners.
enum class Output { kShard, kAll };

struct TileImage {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t element_bytes = 0;
  int tile_m = 1;
  int tile_n = 1;
  int band = 1;  // row blocks
  int row_blocks = 0;
  int col_blocks = 0;

  MK_HD constexpr int64_t bytes() const { return rows * cols * element_bytes; }
  MK_HD constexpr int64_t tiles() const { return static_cast<int64_t>(row_blocks) * col_blocks; }
  MK_HD constexpr int64_t index(const Tile& tile) const {
    return static_cast<int64_t>(tile.row_block) * col_blocks + tile.col_block;
  }
  MK_HD constexpr Range rows_of(const Tile& tile) const { return block_range(rows, tile_m, tile.row_block); }
  MK_HD constexpr Range cols_of(const Tile& tile) const { return block_range(cols, tile_n, tile.col_block); }

  // Where a tile lies in the image.
  MK_HD constexpr Range tile_bytes(const Tile& tile) const {
    const Range r = rows_of(tile);
    const Range c = cols_of(tile);
    const int64_t band_rows = static_cast<int64_t>(band) * tile_m;
    const Range b = block_range(rows, band_rows, tile.row_block / band);
    const int64_t before = b.first * cols + b.count * c.first + (r.first - b.first) * c.count;
    return {before * element_bytes, r.count * c.count * element_bytes};
  }
};

constexpr TileImage make_image(int64_t rows, int64_t cols, int64_t element_bytes, int tile_m, int tile_n, int band) {
  return {rows,
          cols,
          element_bytes,
          tile_m,
          tile_n,
          band,
          static_cast<int>(ceil_div<int64_t>(rows, tile_m)),
          static_cast<int>(ceil_div<int64_t>(cols, tile_n))};
}

}  // namespace mk

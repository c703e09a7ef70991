// SPDX-License-Identifier: MIT
// core/tile.h — a block of the output, and the chunk of input rows it needs.
//
// Rows are cut per source rank: no tile and no chunk straddles two shards, so one signal covers a tile.
// Chunks and tiles have the same height.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/math.h"
#include "core/roles.h"

namespace mk {

struct Tile {
  int64_t number = 0;  // in the order of visit of its rank, 0 …
  int source = 0;      // whose rows
  int row_block = 0;   // in that shard
  int col_block = 0;
};

struct Range {
  int64_t first = 0;
  int64_t count = 0;
};

// Block `index` of a length cut into blocks of `size`; the last one is shorter.
MK_HD constexpr Range block_range(int64_t length, int64_t size, int64_t index) {
  return {index * size, min_of(size, length - index * size)};
}

// How many tiles a worker still has after number `number`, of those that workers take in turn.
MK_HD constexpr int64_t tiles_after(int64_t number, const Post& post, int64_t num_tiles) {
  return (num_tiles - 1 - number) / post.count;
}

}  // namespace mk

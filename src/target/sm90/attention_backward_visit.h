// SPDX-License-Identifier: MIT
// target/sm90/attention_backward_visit.h — what the backward engine is told: a tile of keys against segments of
// queries.
//
// Masks go by position, as in attention_visit.h.
#pragma once

#include <cuda.h>
#include <vector_types.h>

#include <cstdint>

#include "base/macros.h"
#include "base/math.h"
#include "target/sm90/attention_visit.h"

namespace mk::sm90 {

// Rows of K and of V of one head, at most as many as a tile has.  Further rows of the tile hold finite numbers.
struct KeyTile {
  const CUtensorMap* k = nullptr;
  const CUtensorMap* v = nullptr;
  int batch = 0;
  int head = 0;
  int row = 0;  // the first, in the tensors
  int keys = 0;
  int position = 0;  // of the first key
};

// Queries of a head that follow each other; blocks are counted from the first of them.
struct QuerySegment {
  int batch = 0;
  int head = 0;
  int row = 0;  // the first, in the tensors
  int rows = 0;
  int position = 0;     // of the first row
  int first_block = 0;  // its number among all blocks, by which notes and sums are found
};

// Where a tile's gradients go: in fp32, row behind row, to dk and dv, or if those are null to the result.
struct KeyVisit {
  KeyTile tile;
  float* dk = nullptr;
  float* dv = nullptr;
  int64_t id = 0;  // the caller's
};

// Blocks begin … end - 1 of a segment have queries that see keys of the tile.
struct BlockRange {
  int begin = 0;
  int end = 0;

  MK_HD constexpr int count() const { return max_of(0, end - begin); }
};

template <int kQueries>
MK_HD constexpr BlockRange seeing_blocks(const AttentionMask& mask, const KeyTile& tile, const QuerySegment& segment) {
  const int ahead = tile.position - segment.position;  // of the first key before the first query
  const int first = max_of(0, ahead - mask.right);
  const int end = min_of(segment.rows, ahead + tile.keys + mask.left);
  return first < end ? BlockRange{first / kQueries, ceil_div(end, kQueries)} : BlockRange{};
}

// What a mask leaves of a block of queries: key r of the tile, of `keys`, is seen by queries r + first … r + last.
struct SeenBlock {
  int first = 0;
  int last = 0;
  int keys = 0;

  MK_HD static constexpr SeenBlock of(const AttentionMask& mask, const KeyTile& tile, const QuerySegment& segment,
                                      int query) {
    const int ahead = tile.position - segment.position - query;
    return {ahead - mask.right, ahead + mask.left, tile.keys};
  }
  // Whether one of kRows keys from `row` on is not seen by all of kCols queries.
  template <int kRows, int kCols>
  MK_HD constexpr bool cuts(int row) const {
    return row + kRows > keys || row + kRows - 1 + first > 0 || row + last < kCols - 1;
  }
};

}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// target/sm90/attention_visit.h — what the attention engine is told: a tile of queries against segments of keys.
//
// A tile of queries may be visited several times, each time against other keys; between visits its state, sums in fp32,
// lies in memory of the GPU.  Masks go by position: a query at position p sees keys at p - left … p + right.  Positions
// are those of the whole sequence, so it does not matter which rank holds which rows, nor the order of segments.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "base/macros.h"
#include "base/math.h"

namespace mk::sm90 {

// Weights are powers of two: scores are scaled by this, too.
constexpr float kLog2E = 1.44269504088896f;

struct AttentionMask {
  static constexpr int kFar = 1 << 28;  // beyond every key: positions are smaller

  int left = kFar;
  int right = kFar;  // 0: causal
};

struct QueryTile {
  int batch = 0;
  int head = 0;
  int row = 0;  // the first, in the tensor
  int rows = 0;
  int position = 0;  // of the first row
};

// Rows of K and of V, one after the other.  Behind the last of them there are no rows in the tensor maps, or finite
// ones: their weights are zero, but a NaN times zero is a NaN.
struct KeySegment {
  const CUtensorMap* k = nullptr;
  const CUtensorMap* v = nullptr;
  int batch = 0;
  int head = 0;
  int row = 0;  // the first, in the tensors
  int keys = 0;
  int position = 0;  // of the first key
};

// Where a visit's state comes from, and what becomes of it.
enum class VisitBegin : uint8_t { kEmpty, kResumed };
enum class VisitEnd : uint8_t { kResult, kPaused };

struct AttentionVisit {
  QueryTile tile;
  VisitBegin begin = VisitBegin::kEmpty;
  VisitEnd end = VisitEnd::kResult;
  int state = 0;  // which one, if it is resumed or paused
};

// The keys of a segment that some query of the tile sees: begin ≤ key < end, numbers within the segment.
struct KeyRange {
  int begin = 0;
  int end = 0;

  template <int kTileN>
  MK_HD constexpr int blocks() const {
    return begin < end ? ceil_div(end - begin, kTileN) : 0;
  }
};

MK_HD constexpr KeyRange seen_keys(const AttentionMask& mask, const QueryTile& tile, const KeySegment& segment) {
  const int ahead = tile.position - segment.position;  // of the first query before the first key
  return {max_of(0, ahead - mask.left), min_of(segment.keys, ahead + tile.rows + mask.right)};
}

// What a mask leaves of a block of keys: row r of the tile sees columns r + first … r + last of those below `count`.
struct BlockMask {
  int first = 0;
  int last = 0;
  int count = 0;

  MK_HD static constexpr BlockMask of(const AttentionMask& mask, const QueryTile& tile, const KeySegment& segment,
                                      int key) {
    const int ahead = tile.position - segment.position - key;
    return {ahead - mask.left, ahead + mask.right, segment.keys - key};
  }
  // Whether some of kRows rows from `row` on does not see all of kCols columns.
  template <int kRows, int kCols>
  MK_HD constexpr bool cuts(int row) const {
    return count < kCols || row + last < kCols - 1 || row + kRows - 1 + first > 0;
  }
};

}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// ops/attention/attention_positions.h — which positions a rank has, and which keys a query sees.
//
// The sequence is cut into pieces of equal length: one for each rank, or two with kZigzag.  Rows of a rank are its
// pieces, one after the other, so a row of a piece has a position and inside a piece both grow together.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/math.h"
#include "core/tile.h"
#include "mkernel/ring_attention.h"

namespace mk::attention {

// Piece `index` of a rank's `pieces`, by its place in the sequence.
MK_HD constexpr int piece_of(SequenceOrder order, int ranks, int rank, int index) {
  if (order == SequenceOrder::kContiguous) return rank;
  return index == 0 ? rank : 2 * ranks - 1 - rank;
}
MK_HD constexpr int pieces_of(SequenceOrder order) { return order == SequenceOrder::kZigzag ? 2 : 1; }

// Whether a query at position q sees a key at position k, for any q and k.
struct SeenKeys {
  static constexpr int64_t kNoWindow = int64_t{1} << 62;

  MaskKind kind = MaskKind::kFull;
  int64_t window = kNoWindow;

  MK_HD constexpr bool sees(int64_t q, int64_t k) const {
    return kind == MaskKind::kFull || (k <= q && q - k < window);
  }
  // Of `keys`, those that at least one of `queries` sees: both are ranges of positions, and so is the result.
  MK_HD constexpr Range seen(const Range& queries, const Range& keys) const {
    if (kind == MaskKind::kFull) return keys;
    const int64_t first = max_of(keys.first, queries.first - min_of(window - 1, queries.first));
    const int64_t end = min_of(keys.first + keys.count, queries.first + queries.count);
    return {first, max_of<int64_t>(0, end - first)};
  }
};

// From the first of both to the last.
MK_HD constexpr Range around(const Range& a, const Range& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const int64_t first = min_of(a.first, b.first);
  return {first, max_of(a.first + a.count, b.first + b.count) - first};
}

}  // namespace mk::attention

// SPDX-License-Identifier: MIT
// ops/attention/attention_spans.h — where the positions of all ranks are cut if several sequences are packed into them.
//
//   span    positions of one sequence in one piece: pieces begin and end inside sequences
//
// Tiles are cut from the beginning of their span, so none has rows of two sequences.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/macros.h"
#include "base/math.h"
#include "core/tile.h"

namespace mk::attention {

// Tiles of queries and tiles of keys have different heights.
enum CutKind { kQueryCut, kKeyCut, kCutKinds };

struct Span {
  int first = 0;  // position
  int end = 0;
  int sequence_first = 0;
  int sequence_end = 0;
  int tiles_before[kCutKinds] = {};  // in all spans before
};

// Of all positions, in their order.  Whoever has the table keeps the spans; without any, there is one sequence.
struct Spans {
  const Span* all = nullptr;
  int count = 0;
  int tile_rows[kCutKinds] = {1, 1};

  MK_HD constexpr bool are_packed() const { return count > 0; }

  // That of a position, or of a tile by its number over all spans.
  MK_HD constexpr const Span& at(int64_t position) const {
    return last_of([position](const Span& span) { return span.first <= position; });
  }
  MK_HD constexpr const Span& with_tile(CutKind kind, int tile) const {
    return last_of([kind, tile](const Span& span) { return span.tiles_before[kind] <= tile; });
  }

  // What is left of `keys` if only keys of the sequences that `positions` are of count.
  MK_HD constexpr Range in_sequences_of(const Range& positions, const Range& keys) const {
    if (!are_packed() || positions.count == 0) return keys;
    const int64_t first = max_of<int64_t>(keys.first, at(positions.first).sequence_first);
    const int64_t end =
        min_of<int64_t>(keys.first + keys.count, at(positions.first + positions.count - 1).sequence_end);
    return {first, max_of<int64_t>(0, end - first)};
  }

  // Number of the tile that has a position, over all spans.
  MK_HD constexpr int tile_of(CutKind kind, int64_t position) const {
    const Span& span = at(position);
    return span.tiles_before[kind] + static_cast<int>(position - span.first) / tile_rows[kind];
  }
  // How many tiles have positions of a range.
  MK_HD constexpr int tiles_in(CutKind kind, const Range& positions) const {
    if (positions.count == 0) return 0;
    return tile_of(kind, positions.first + positions.count - 1) - tile_of(kind, positions.first) + 1;
  }
  // Those positions of a range that its tile number `index` has.
  MK_HD constexpr Range tile_in(CutKind kind, const Range& positions, int index) const {
    const int tile = tile_of(kind, positions.first) + index;
    const Span& span = with_tile(kind, tile);
    const int64_t begins = span.first + int64_t{tile - span.tiles_before[kind]} * tile_rows[kind];
    const int64_t first = max_of(begins, positions.first);
    const int64_t end = min_of(min_of<int64_t>(begins + tile_rows[kind], span.end), positions.first + positions.count);
    return {first, end - first};
  }

 private:
  // The last span for which it holds: it holds for the first and then up to some.
  template <class Holds>
  MK_HD constexpr const Span& last_of(const Holds& holds) const {
    int low = 0;
    int high = count;
    MK_LOOP
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (holds(all[middle])) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return all[low];
  }
};

// cu_seqlens: where sequences begin, and then where the last one ends.
std::vector<Span> make_spans(std::span<const int32_t> cu_seqlens, int64_t piece_rows,
                             const std::array<int, kCutKinds>& tile_rows);

}  // namespace mk::attention

// SPDX-License-Identifier: MIT
// ops/attention/attention_spans.cc — see attention_spans.h.
#include "ops/attention/attention_spans.h"

namespace mk::attention {

std::vector<Span> make_spans(std::span<const int32_t> cu_seqlens, int64_t piece_rows,
                             const std::array<int, kCutKinds>& tile_rows) {
  std::vector<Span> spans;
  std::array<int, kCutKinds> tiles = {};
  for (size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    for (int64_t first = cu_seqlens[i], end = 0; first < cu_seqlens[i + 1]; first = end) {
      end = min_of<int64_t>(cu_seqlens[i + 1], (first / piece_rows + 1) * piece_rows);
      Span& span = spans.emplace_back();
      span.first = static_cast<int>(first);
      span.end = static_cast<int>(end);
      span.sequence_first = cu_seqlens[i];
      span.sequence_end = cu_seqlens[i + 1];
      for (int kind = 0; kind < kCutKinds; ++kind) {
        span.tiles_before[kind] = tiles[kind];
        tiles[kind] += ceil_div(static_cast<int>(end - first), tile_rows[kind]);
      }
    }
  }
  return spans;
}

}  // namespace mk::attention

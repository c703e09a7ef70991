// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_maps.cuh — rows of heads as TMA sees them, and the mask as the engines see it.
//
// A tensor is (column, row of a piece, head, part).  A part is a piece of a batch; in a window those of all slots
// follow each other, keys and values in turn.
#pragma once

#include <algorithm>

#include "ops/attention/ring_attention_layout.h"
#include "ops/attention/ring_attention_params.cuh"
#include "runtime/plan.h"
#include "target/sm90/attention_visit.h"
#include "target/sm90/tensor_map.h"

namespace mk::attention {

inline CUtensorMap rows_map(const Layout& layout, int heads, const void* data, DType dtype, int64_t parts,
                            int box_rows) {
  const int64_t row = int64_t{heads} * layout.dim;
  const sm90::TensorView view{
      data, dtype, 4, {layout.dim, layout.piece_rows(), heads, parts}, {1, row, layout.dim, layout.piece_rows() * row}};
  return sm90::make_tensor_map(view, {{64, box_rows, 1, 1}});
}

inline KeyMaps key_maps(const Layout& layout, const void* k, const void* v, DType dtype, int slots, int box_rows) {
  const int64_t half = int64_t{layout.batch} * layout.pieces();
  const int64_t parts = (2 * slots - 1) * half;  // behind the last keys there are only values, and the other way round
  return {rows_map(layout, layout.kv_heads, k, dtype, parts, box_rows),
          rows_map(layout, layout.kv_heads, v, dtype, parts, box_rows)};
}

struct KeyMapsOfRank {
  KeyMaps own;
  KeyMaps rail;
  KeyMaps local;
};

inline KeyMapsOfRank key_maps_of(const Layout& layout, const RankView& view, const runtime::Plan& plan, const void* k,
                                 const void* v, DType dtype, int box_rows) {
  const KeyMaps own = key_maps(layout, k, v, dtype, 1, box_rows);
  const auto of_window = [&](uint32_t window, int slots) {
    if (slots == 0) return own;  // not used
    std::byte* const first = plan.window(window, view.rank);
    return key_maps(layout, first, first + layout.half_bytes(), dtype, slots, box_rows);
  };
  return {own, of_window(kRailWindow, layout.rail_slots), of_window(kLocalWindow, layout.local_slots)};
}

inline sm90::AttentionMask engine_mask(const Layout& layout) {
  if (layout.mask.kind != MaskKind::kCausal) return {};
  constexpr int64_t kFar = sm90::AttentionMask::kFar;
  return {static_cast<int>(std::min(kFar, layout.mask.window - 1)), 0};
}

}  // namespace mk::attention

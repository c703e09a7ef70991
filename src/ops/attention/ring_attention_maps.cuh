// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_maps.cuh — rows of heads as TMA sees them, and the mask as the engines see it.
//
// A caller's tensor is (column, row, head, batch), with the caller's strides.  A window is (column, row of a piece,
// head, part).  A part is a piece of a batch; those of all slots follow each other, keys and values in turn.
#pragma once

#include <algorithm>

#include "ops/attention/ring_attention_layout.h"
#include "ops/attention/ring_attention_params.cuh"
#include "runtime/plan.h"
#include "target/sm90/attention_visit.h"
#include "target/sm90/tensor_map.h"

namespace mk::attention {

inline CUtensorMap rows_map(const Layout& layout, int heads, const HeadView& of, DType dtype, int box_rows) {
  const HeadStrides& strides = of.strides;
  const sm90::TensorView view{
      of.data, dtype, 4, {layout.dim, layout.rows, heads, layout.batch}, {1, strides.row, strides.head, strides.batch}};
  return sm90::make_tensor_map(view, {{64, box_rows, 1, 1}});
}

inline CUtensorMap parts_map(const Layout& layout, const void* data, DType dtype, int64_t parts, int box_rows) {
  const HeadStrides strides = without_gaps(layout.piece_rows(), layout.kv_heads, layout.dim);
  const sm90::TensorView view{data,
                              dtype,
                              4,
                              {layout.dim, layout.piece_rows(), layout.kv_heads, parts},
                              {1, strides.row, strides.head, strides.batch}};
  return sm90::make_tensor_map(view, {{64, box_rows, 1, 1}});
}

struct KeyMapsOfRank {
  KeyMaps own;
  KeyMaps rail;
  KeyMaps local;
};

inline KeyMapsOfRank key_maps_of(const Layout& layout, const RankView& view, const runtime::Plan& plan,
                                 const HeadView& k, const HeadView& v, DType dtype, int box_rows) {
  const KeyMaps own{rows_map(layout, layout.kv_heads, k, dtype, box_rows),
                    rows_map(layout, layout.kv_heads, v, dtype, box_rows)};
  const auto of_window = [&](uint32_t window, int slots) {
    if (slots == 0) return own;  // not used
    const int64_t half = int64_t{layout.batch} * layout.pieces();
    const int64_t parts = (2 * slots - 1) * half;  // behind the last keys are only values, and the other way round
    std::byte* const first = plan.window(window, view.rank);
    return KeyMaps{parts_map(layout, first, dtype, parts, box_rows),
                   parts_map(layout, first + layout.half_bytes(), dtype, parts, box_rows)};
  };
  return {own, of_window(kRailWindow, layout.rail_slots), of_window(kLocalWindow, layout.local_slots)};
}

// Rows of a step's keys as the maps have them: their batch or part, and the first in it.
struct MappedRows {
  int batch;
  int row;
};
MK_HD inline MappedRows mapped_rows(const Layout& layout, int step, int batch, int piece, int64_t row) {
  if (step == 0) return {batch, static_cast<int>(row)};
  const int part = (layout.slot_of(step) * 2 * layout.batch + batch) * layout.pieces() + piece;
  return {part, static_cast<int>(row - piece * layout.piece_rows())};
}

inline sm90::AttentionMask engine_mask(const Layout& layout) {
  if (layout.mask.kind != MaskKind::kCausal) return {};
  constexpr int64_t kFar = sm90::AttentionMask::kFar;
  return {static_cast<int>(std::min(kFar, layout.mask.window - 1)), 0};
}

}  // namespace mk::attention

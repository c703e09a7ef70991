// SPDX-License-Identifier: MIT
// bench/attention_launch.h — what a launch of attention_kernel.cuh computes, and its tensor maps.
#pragma once

#include <array>
#include <cstdint>

#include "base/math.h"
#include "target/sm90/attention_visit.h"
#include "target/sm90/tensor_map.h"

namespace mk::bench {

// [batch, row, head, dim] without gaps.
struct RowsOfHeads {
  int64_t batches = 1;
  int64_t rows = 1;
  int64_t heads = 1;
  int64_t dim = 64;

  int64_t of_head() const { return dim; }
  int64_t of_row() const { return heads * dim; }
  int64_t of_batch() const { return rows * heads * dim; }
  int64_t size() const { return batches * rows * heads * dim; }

  // In boxes of 64 columns and `box_rows` rows; only rows before `end` exist.
  CUtensorMap map(const void* data, DType dtype, int box_rows, int64_t end) const {
    const sm90::TensorView view{data, dtype, 4, {dim, end, heads, batches}, {1, of_row(), of_head(), of_batch()}};
    return sm90::make_tensor_map(view, {{64, box_rows, 1, 1}});
  }
  CUtensorMap map(const void* data, DType dtype, int box_rows) const { return map(data, dtype, box_rows, rows); }
};

// How many heads are computed at the same time: the most, a divisor of all, whose keys and values take half of an L2.
inline int heads_at_once(const RowsOfHeads& keys, int64_t query_heads) {
  constexpr int64_t kHalfOfL2 = 30 << 20;
  const int64_t group = query_heads / keys.heads;
  const int64_t kv_heads = max_of<int64_t>(1, kHalfOfL2 / (4 * keys.rows * keys.dim));
  int64_t at_once = min_of(kv_heads * group, keys.batches * query_heads);
  while (keys.batches * query_heads % at_once != 0) --at_once;
  return static_cast<int>(at_once);
}

}  // namespace mk::bench

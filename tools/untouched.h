// SPDX-License-Identifier: MIT
// tools/untouched.h — that nobody wrote where nobody may.
#pragma once

#include <algorithm>
#include <cstdint>

#include "data_engine.h"
#include "matrix_memory.h"

namespace mk::tools {

// Elements of a poisoned matrix that somebody wrote, from row `first` to row `end`.
inline int64_t count_touched(DataEngine& engine, runtime::Device& device, const Matrix& matrix, int64_t first,
                             int64_t end) {
  constexpr int64_t kAtOnce = 256;
  if (first >= end) return 0;
  const Matrix poison(device, matrix.view.dtype, std::min(kAtOnce, end - first), matrix.view.cols);
  engine.poison(poison.view);
  int64_t touched = 0;
  for (; first < end; first += kAtOnce) {
    const int64_t rows = std::min(kAtOnce, end - first);
    touched += engine.count_different(matrix.rows(first, rows), poison.rows(0, rows));
  }
  return touched;
}

}  // namespace mk::tools

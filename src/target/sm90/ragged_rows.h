// SPDX-License-Identifier: MIT
// target/sm90/ragged_rows.h — boxes of a matrix that may end at any row.
//
// Groups of rows that follow each other without gaps need this: a box that is stored must not touch the rows of the
// next group.  TMA cuts a box at the edges of its tensor.  So the tensor has two dimensions of rows with the same
// stride: the rows of a window of box_rows rows, and the place where the window ends.  A box of fewer rows begins
// inside the window and is cut at its end.  The tensor begins box_rows rows before the matrix.  Nothing there is
// written; but where boxes are loaded it must be memory: an H200 faulted on loads when it was not.
#pragma once

#include <array>
#include <cstdint>

#include "base/macros.h"

namespace mk::sm90 {

struct RaggedRows {
  int64_t cols = 0;
  int64_t rows = 0;
  int box_rows = 64;

  constexpr std::array<int64_t, 3> sizes() const { return {cols, box_rows, rows + 1}; }
  constexpr std::array<int64_t, 3> strides() const { return {1, cols, cols}; }
  constexpr int64_t begin() const { return -box_rows * cols; }  // the tensor's first element, seen from the matrix's

  struct Coords {
    int32_t at[3];
  };

  // Of the box whose first `count` rows, 1 to box_rows, are rows `row` and after of the matrix; the rest is cut off.
  MK_HD static constexpr Coords box(int col, int row, int count, int box_rows) {
    return {{col, box_rows - count, row + count}};
  }
};

}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// target/sm90/box_image.h — how a tile of elements of 16 or 32 bits lies in an image on a GPU.
//
// A tile lies as the store job has it in shared memory, so that a box leaves as one bulk copy: stripes of 64 rows; in
// a stripe, boxes of 64 columns (32 of fp32); in a box, rows of 128 bytes whose 16-byte vectors are swizzled.  Tails
// are cut, not padded: the last stripe has fewer rows; the last box of a stripe has fewer columns and then no
// swizzle.  Columns are a multiple of what a vector holds: 8, or 4 of fp32.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/math.h"

namespace mk::sm90 {

template <int kBytes>
struct BoxImageOf {
  int rows = 0;  // of the tile
  int cols = 0;

  static constexpr int kElementBytes = kBytes;
  static constexpr int kSide = 64;  // rows of a box
  static constexpr int kBoxCols = 128 / kElementBytes;
  static constexpr int kVectorBytes = 16;
  static constexpr int kVectorCols = kVectorBytes / kElementBytes;
  static constexpr int kBoxBytes = kSide * kBoxCols * kElementBytes;
  static constexpr int kUnusedVector = kBoxBytes - kVectorBytes;  // of a narrow box's buffer

  // No box is cut.
  MK_HD constexpr bool is_whole() const { return rows % kSide == 0 && cols % kBoxCols == 0; }

  // The box whose first element is (row, col) of the tile; its size is zero beyond the edges.
  MK_HD constexpr int box_offset(int row, int col) const {
    return (row * cols + min_of(kSide, rows - row) * col) * kElementBytes;
  }
  MK_HD constexpr int box_bytes(int row, int col) const {
    if (row >= rows || col >= cols) return 0;
    return min_of(kSide, rows - row) * min_of(kBoxCols, cols - col) * kElementBytes;
  }

  // Where a vector of a row lies in its box, in bytes.
  MK_HD static constexpr int in_full_box(int row, int vector) {
    return row * kBoxCols * kElementBytes + (vector ^ (row % 8)) * kVectorBytes;
  }
  MK_HD static constexpr int in_narrow_box(int row, int vector, int box_cols) {
    return row * box_cols * kElementBytes + vector * kVectorBytes;
  }

  struct Element {
    int row = 0;
    int col = 0;
  };

  // In a whole image: the first element of the half box that begins at byte `first`.
  MK_HD constexpr Element piece_at(int first) const {
    constexpr int kHalfBytes = kBoxBytes / 2;
    const int half = first / kHalfBytes;
    const int across = cols / kBoxCols;
    return {half / 2 / across * kSide + half % 2 * (kSide / 2), half / 2 % across * kBoxCols};
  }

  // The first of the elements in vector `index`.
  MK_HD constexpr Element element_of(int index) const {
    const int at = index * kVectorBytes;
    const int stripe = at / (kSide * cols * kElementBytes);
    const int in_stripe = at - stripe * kSide * cols * kElementBytes;
    const int height = min_of(kSide, rows - stripe * kSide);
    const int box = in_stripe / (height * kBoxCols * kElementBytes);
    const int in_box = in_stripe - box * height * kBoxCols * kElementBytes;
    const int width = min_of(kBoxCols, cols - box * kBoxCols);
    const int row = in_box / (width * kElementBytes);
    const int vector = (in_box - row * width * kElementBytes) / kVectorBytes;
    const int col = (width == kBoxCols ? vector ^ (row % 8) : vector) * kVectorCols;
    return {stripe * kSide + row, box * kBoxCols + col};
  }
};

using BoxImage = BoxImageOf<2>;

}  // namespace mk::sm90

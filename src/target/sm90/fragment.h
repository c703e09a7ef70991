// SPDX-License-Identifier: MIT
// target/sm90/fragment.h — which elements of a matrix the threads of a warpgroup hold for wgmma.
//
// A warp has 16 rows, a thread two of them, 8 apart; in each group of 8 columns two neighbours of either row.  Sums and
// an A in registers lie the same way, so 16 columns of sums, rounded in pairs, are the A of a next wgmma as they are.
#pragma once

#include "base/macros.h"

namespace mk::sm90 {

struct Fragment {
  // Sum i of a thread (0 … 127 in its warpgroup), of a result of 64 rows.
  MK_HD static constexpr int sum_row(int thread, int i) { return thread / 32 * 16 + thread % 32 / 4 + i % 4 / 2 * 8; }
  MK_HD static constexpr int sum_col(int thread, int i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }

  // Word 0 … 3 of an A of 64 × 16 holds this element and, in its upper half, the next of the row.
  MK_HD static constexpr int a_row(int thread, int word) { return sum_row(thread, 2 * word); }
  MK_HD static constexpr int a_col(int thread, int word) { return sum_col(thread, 2 * word); }

  // The sum that is the lower half of a word, where A is columns 16·step … 16·step + 15 of sums; the next is the upper.
  MK_HD static constexpr int sum_of_word(int step, int word) { return 8 * step + 2 * word; }
};

}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// target/sm90/result_boxes.h — how a tile's result is cut into the boxes in which it leaves.
//
// A tile of sums, kTileM × kTileN, becomes a result of elements of 16 or 32 bits, with as many columns or, where the
// epilogue folds two sums into one (SwiGLU), half as many.  Each consumer's part leaves in boxes of 64 rows of 128
// bytes; the last across may be narrow, with rows of 64 bytes.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/math.h"
#include "target/sm90/box_image.h"

namespace mk::sm90 {

template <class Config, int kBytes = 2, int kSumsToOne = 1>
struct ResultBoxes {
  static constexpr int kElementBytes = kBytes;
  static constexpr int kFold = kSumsToOne;
  static constexpr int kTileN = Config::kTileN / kFold;
  static constexpr int kPartN = Config::kPartN / kFold;

  static constexpr bool kHoldsNothing = false;  // the hook writes results itself; a box only says that they are there

  static constexpr int kRows = 64;
  static constexpr int kCols = BoxImageOf<kBytes>::kBoxCols;
  static constexpr int kAcross = ceil_div(kPartN, kCols);
  static constexpr int kPerPart = Config::kSlabs * kAcross;

  static constexpr int kNarrow = kPartN % kCols;  // columns of the last box across; 0: as many as the others
  MK_HD static constexpr bool is_narrow(int col) { return kNarrow > 0 && col % kPartN == kPartN - kNarrow; }

  // Of one consumer and one slab, in words of a thread.
  static constexpr int kWords = kPartN / 2 * kBytes / 4;

  // The last tile of a block leaves through A's shared memory, if that has room for all boxes (GemmConfig).
  static constexpr bool kLastThroughA = Config::kLastThroughA && kPerPart <= Config::kBoxesPerPart;

  // Where a box begins in the tile's result.
  MK_HD static constexpr int row_of(int consumer, int box) {
    return (Config::kConsumersAlongM == 1 ? 0 : consumer * Config::kPartM) + box / kAcross * kRows;
  }
  MK_HD static constexpr int col_of(int consumer, int box) {
    return (Config::kConsumersAlongM == 1 ? consumer * kPartN : 0) + box % kAcross * kCols;
  }

  static_assert(kFold == 1 || (kFold == 2 && Config::kPartN % 16 == 0));
  static_assert(kNarrow == 0 || kNarrow * kBytes == 64, "a narrow box has a swizzle of 64 bytes");
  static_assert(Config::kSlabs * (Config::kPartN / 2 + kWords) <= 192,
                "a thread holds the sums of one tile and the result of the tile before");
};

// SwiGLU of columns g and u of one product: the right operand holds the columns of gate and up in turns of 8.  wgmma
// gives a thread two neighbours in each group of 8 columns, so it has the same two columns of a gate's group and of the
// up's that follows: their two results lie as sums of a product half as wide would, and nothing moves between threads.
// (Turns of 1 would give it pairs too, but each result alone: neighbours would lie in two threads.)
struct GatedColumns {
  static constexpr int kTurn = 8;

  // Which column of the right operand is column j of gate or up.  There are a multiple of 8 of either.
  MK_HD static constexpr int64_t gate(int64_t j) { return j / kTurn * 2 * kTurn + j % kTurn; }
  MK_HD static constexpr int64_t up(int64_t j) { return gate(j) + kTurn; }

  // The other way: column `col` of the right operand is this column, of up or else of gate.
  MK_HD static constexpr int64_t result(int64_t col) { return col / (2 * kTurn) * kTurn + col % kTurn; }
  MK_HD static constexpr bool is_up(int64_t col) { return col / kTurn % 2 == 1; }
};

}  // namespace mk::sm90

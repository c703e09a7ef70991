// SPDX-License-Identifier: MIT
// tests/target/result_boxes_test.cc — boxes cover a tile's result once; a thread has gate and up of its results; a box
// of ragged rows touches its rows only.
#include "target/sm90/result_boxes.h"

#include <gtest/gtest.h>

#include <vector>

#include "target/sm90/fragment.h"
#include "target/sm90/gemm_config.h"
#include "target/sm90/ragged_rows.h"

namespace mk::sm90 {
namespace {

template <class Config, int kBytes, int kFold>
void expect_boxes_to_cover_a_tile() {
  using Results = ResultBoxes<Config, kBytes, kFold>;
  std::vector<int> seen(Config::kTileM * Results::kTileN);
  for (int consumer = 0; consumer < Config::kConsumers; ++consumer) {
    for (int box = 0; box < Results::kPerPart; ++box) {
      const int first_row = Results::row_of(consumer, box);
      const int first_col = Results::col_of(consumer, box);
      const int cols = Results::is_narrow(first_col) ? Results::kNarrow : Results::kCols;
      EXPECT_LE(cols * kBytes, 128);
      for (int row = first_row; row < first_row + Results::kRows; ++row) {
        for (int col = first_col; col < first_col + cols; ++col) ++seen.at(row * Results::kTileN + col);
      }
    }
  }
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << Config::kTileM << " x " << Config::kTileN;
}

TEST(ResultBoxes, CoverATileOnce) {
  [&]<class... Config>(std::tuple<Config...>*) {
    (expect_boxes_to_cover_a_tile<Config, 2, 1>(), ...);
  }(static_cast<GemmConfigs*>(nullptr));
}

TEST(ResultBoxes, CoverAFoldedTileOnce) {
  expect_boxes_to_cover_a_tile<GemmConfig<128, 256, 2, 2>, 2, 2>();
  expect_boxes_to_cover_a_tile<GemmConfig<256, 128, 2, 1, 1>, 2, 2>();
  expect_boxes_to_cover_a_tile<GemmConfig<128, 192, 2, 1, 1>, 2, 2>();
  expect_boxes_to_cover_a_tile<GemmConfig<128, 128, 2, 1, 1>, 2, 2>();
  expect_boxes_to_cover_a_tile<GemmConfig<64, 128, 1, 1, 1>, 2, 2>();
}

TEST(ResultBoxes, CoverATileOfFp32Once) {
  expect_boxes_to_cover_a_tile<GemmConfig<128, 256, 2, 1, 1>, 4, 2>();
  expect_boxes_to_cover_a_tile<GemmConfig<128, 192, 2, 1, 1>, 4, 1>();
  expect_boxes_to_cover_a_tile<GemmConfig<128, 128, 2, 1, 1>, 4, 1>();
  expect_boxes_to_cover_a_tile<GemmConfig<64, 128, 1, 1, 1>, 4, 1>();
}

// As GemmConfig has them, for operators that look there.
TEST(ResultBoxes, AreThoseOfTheConfiguration) {
  [&]<class... Config>(std::tuple<Config...>*) {
    (
        [] {
          using Results = ResultBoxes<Config>;
          EXPECT_EQ(Results::kAcross, Config::kBoxesAcross);
          EXPECT_EQ(Results::kPerPart, Config::kBoxesPerPart);
          EXPECT_EQ(Results::kNarrow, Config::kNarrowBox);
          EXPECT_EQ(Results::kLastThroughA, Config::kLastThroughA);
        }(),
        ...);
  }(static_cast<GemmConfigs*>(nullptr));
}

// What the maths job does with a box of fp32: every thread writes its sums in pairs, in vectors as BoxImageOf<4> has
// them. TMA looks for an element where its swizzle of 128 bytes puts it.
TEST(ResultBoxes, ThreadsWriteABoxOfFp32AsTmaReadsIt) {
  using Image = BoxImageOf<4>;
  std::vector<int> written(Image::kBoxBytes / 4, -1);
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < 16; ++i) {
      const int row = Fragment::sum_row(thread, i);
      const int col = Fragment::sum_col(thread, i);
      const int at = Image::in_full_box(row, col / Image::kVectorCols) + col % Image::kVectorCols * 4;
      EXPECT_EQ(written.at(at / 4), -1);
      written.at(at / 4) = row * Image::kBoxCols + col;
    }
  }
  for (int element = 0; element < Image::kBoxBytes / 4; ++element) {
    const int byte = element * 4;
    EXPECT_EQ(written[(byte ^ byte / 128 % 8 * 16) / 4], element);
  }
}

TEST(GatedColumns, HoldEveryColumnOfGateAndUpOnce) {
  constexpr int kCols = 72;
  std::vector<int> seen(2 * kCols);
  for (int j = 0; j < kCols; ++j) {
    ++seen.at(GatedColumns::gate(j));
    ++seen.at(GatedColumns::up(j));
    EXPECT_EQ(GatedColumns::result(GatedColumns::gate(j)), j);
    EXPECT_EQ(GatedColumns::result(GatedColumns::up(j)), j);
    EXPECT_FALSE(GatedColumns::is_up(GatedColumns::gate(j)));
    EXPECT_TRUE(GatedColumns::is_up(GatedColumns::up(j)));
  }
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

// What the maths job does: result i of a thread, where sum i of a product half as wide would lie, comes of two sums
// that the thread has: gate and up of that very column.
TEST(GatedColumns, AThreadHasGateAndUpOfItsResults) {
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < 64; ++i) {
      const int gate = i / 4 * 8 + i % 4;
      const int col = Fragment::sum_col(thread, i);
      EXPECT_EQ(Fragment::sum_col(thread, gate), GatedColumns::gate(col));
      EXPECT_EQ(Fragment::sum_col(thread, gate + 4), GatedColumns::up(col));
      EXPECT_EQ(Fragment::sum_row(thread, gate), Fragment::sum_row(thread, i));
      EXPECT_EQ(Fragment::sum_row(thread, gate + 4), Fragment::sum_row(thread, i));
    }
  }
}

// Plays TMA: what of a box lies inside the tensor is touched, wherever that is in memory.
TEST(RaggedRows, ABoxTouchesItsRowsAndNoOthers) {
  constexpr int kBoxRows = 8;
  const RaggedRows matrix{.cols = 3, .rows = 21, .box_rows = kBoxRows};
  for (int row = 0; row < matrix.rows; ++row) {
    for (int count = 1; count <= kBoxRows && row + count <= matrix.rows; ++count) {
      const RaggedRows::Coords from = RaggedRows::box(0, row, count, kBoxRows);
      std::vector<int64_t> touched;
      for (int i = 0; i < kBoxRows; ++i) {
        const int64_t in_window = from.at[1] + i;
        if (in_window < 0 || in_window >= matrix.sizes()[1]) continue;
        ASSERT_TRUE(from.at[2] >= 0 && from.at[2] < matrix.sizes()[2]);
        EXPECT_EQ(i, static_cast<int>(touched.size())) << "the box's first rows are those that are kept";
        const int64_t element = matrix.begin() + in_window * matrix.strides()[1] + from.at[2] * matrix.strides()[2];
        touched.push_back(element / matrix.cols);
      }
      std::vector<int64_t> expected;
      for (int i = 0; i < count; ++i) expected.push_back(row + i);
      EXPECT_EQ(touched, expected) << row << ", " << count;
    }
  }
}

}  // namespace
}  // namespace mk::sm90

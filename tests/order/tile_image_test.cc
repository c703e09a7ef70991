// SPDX-License-Identifier: MIT
// tests/order/tile_image_test.cc — tiles lie in an image in the order they are made, without gaps.
#include "ops/tile_image.h"

#include <gtest/gtest.h>

#include "core/schedule.h"

namespace mk::test {
namespace {

TEST(TileImage, TilesLieInTheOrderTheyAreMadeAndFillTheImage) {
  for (const int64_t rows : {1, 3, 4, 5, 17}) {
    for (const int64_t cols : {1, 7, 8, 9, 30}) {
      const TileImage image = make_image(rows, cols, 2, 4, 8, 3);
      int64_t filled = 0;
      for (int step = 0; step < image.tiles(); ++step) {
        const GridPos at = banded(step, image.row_blocks, image.col_blocks, image.band);
        const Tile tile{0, 0, at.row, at.col};
        const Range bytes = image.tile_bytes(tile);
        EXPECT_EQ(bytes.first, filled) << rows << "x" << cols << " tile " << at.row << ", " << at.col;
        EXPECT_EQ(bytes.count, image.rows_of(tile).count * image.cols_of(tile).count * 2);
        EXPECT_EQ(image.index(tile), at.row * image.col_blocks + at.col);
        filled += bytes.count;
      }
      EXPECT_EQ(filled, image.bytes());
    }
  }
}

// What TMA and bulk copies ask for: n is a multiple of 8 there, and a tile 128 × 256.
TEST(TileImage, OnAGpuEveryTileBeginsAtAMultipleOfSixteenBytes) {
  for (const int64_t rows : {1, 127, 129, 257}) {
    for (const int64_t cols : {8, 264, 1032}) {
      const TileImage image = make_image(rows, cols, 2, 128, 256, 4);
      for (int row = 0; row < image.row_blocks; ++row) {
        for (int col = 0; col < image.col_blocks; ++col) {
          const Range bytes = image.tile_bytes({0, 0, row, col});
          EXPECT_EQ(bytes.first % 16, 0);
          EXPECT_EQ(bytes.count % 16, 0);
        }
      }
      EXPECT_EQ(image.bytes() % 16, 0);
    }
  }
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/target/box_image_test.cc — boxes fill a tile's image without gaps, and all agree on where an element is.
#include "target/sm90/box_image.h"

#include <gtest/gtest.h>

#include <vector>

namespace mk::sm90 {
namespace {

constexpr int kSide = BoxImage::kSide;

// Calls body with the image of every tile up to 256 × 256, rows of all kinds: ones, whole stripes, tails.
template <class Body>
void for_each_image(Body&& body) {
  for (const int rows : {1, 2, 7, 8, 63, 64, 65, 100, 127, 128, 129, 192, 255, 256}) {
    for (int cols = 8; cols <= 256; cols += 8) {
      SCOPED_TRACE(testing::Message() << rows << " x " << cols);
      body(BoxImage{rows, cols});
    }
  }
}

int bytes_of(const BoxImage& image) { return image.rows * image.cols * BoxImage::kElementBytes; }

// Where the maths job puts 8 columns, as seen from the image's first byte.
int staged_at(const BoxImage& image, int row, int col) {
  const int box_row = row / kSide * kSide;
  const int box_col = col / kSide * kSide;
  const int width = std::min(kSide, image.cols - box_col);
  const int chunk = (col - box_col) / 8;
  return image.box_offset(box_row, box_col) + (width == kSide ? BoxImage::in_full_box(row - box_row, chunk)
                                                              : BoxImage::in_narrow_box(row - box_row, chunk, width));
}

TEST(BoxImage, BoxesFollowEachOtherWithoutGapsOrOverlaps) {
  for_each_image([](const BoxImage& image) {
    int at = 0;
    for (int row = 0; row < image.rows; row += kSide) {
      for (int col = 0; col < image.cols; col += kSide) {
        ASSERT_EQ(image.box_offset(row, col), at);
        ASSERT_GT(image.box_bytes(row, col), 0);
        at += image.box_bytes(row, col);
      }
    }
    ASSERT_EQ(at, bytes_of(image));
  });
}

TEST(BoxImage, ABoxBeyondTheEdgesIsEmpty) {
  for_each_image([](const BoxImage& image) {
    for (int row = 0; row < 256; row += kSide) {
      for (int col = 0; col < 256; col += kSide) {
        if (row < image.rows && col < image.cols) continue;
        ASSERT_EQ(image.box_bytes(row, col), 0);
      }
    }
  });
}

TEST(BoxImage, EveryChunkHoldsEightElementsOfItsOwn) {
  for_each_image([](const BoxImage& image) {
    const int chunks = image.rows * image.cols / 8;
    std::vector<int> seen(chunks);
    for (int index = 0; index < chunks; ++index) {
      const BoxImage::Element first = image.element_of(index);
      ASSERT_TRUE(first.row >= 0 && first.row < image.rows && first.col >= 0 && first.col + 8 <= image.cols);
      ASSERT_EQ(first.col % 8, 0);
      ASSERT_EQ(seen[(first.row * image.cols + first.col) / 8]++, 0);
    }
    ASSERT_EQ(chunks * BoxImage::kChunkBytes, bytes_of(image));
  });
}

TEST(BoxImage, WhoSumsFindsAnElementWhereTheMathsJobPutIt) {
  for_each_image([](const BoxImage& image) {
    for (int index = 0; index < image.rows * image.cols / 8; ++index) {
      const BoxImage::Element first = image.element_of(index);
      ASSERT_EQ(staged_at(image, first.row, first.col), index * BoxImage::kChunkBytes);
    }
  });
}

// What makes a piece of an image something that TMA can store: it is half a box, in order.
TEST(BoxImage, APieceOfAWholeImageIsHalfABox) {
  for_each_image([](const BoxImage& image) {
    if (!image.is_whole()) return;
    constexpr int kHalf = kSide / 2 * kSide * BoxImage::kElementBytes;
    for (int first = 0; first < bytes_of(image); first += kHalf) {
      const BoxImage::Element at = image.piece_at(first);
      for (int byte = 0; byte < kHalf; byte += BoxImage::kChunkBytes) {
        const BoxImage::Element element = image.element_of((first + byte) / BoxImage::kChunkBytes);
        ASSERT_TRUE(element.row >= at.row && element.row < at.row + kSide / 2);
        ASSERT_TRUE(element.col >= at.col && element.col < at.col + kSide);
        ASSERT_EQ(BoxImage::in_full_box(element.row - at.row, (element.col - at.col) / 8), byte);
      }
    }
  });
}

// Eight rows of one column must come from eight different chunks of 128 bytes: no conflicts in shared memory.
TEST(BoxImage, AFullBoxIsSwizzledByTheRow) {
  for (int chunk = 0; chunk < 8; ++chunk) {
    unsigned banks = 0;
    for (int row = 0; row < 8; ++row) banks |= 1u << BoxImage::in_full_box(row, chunk) / BoxImage::kChunkBytes % 8;
    EXPECT_EQ(banks, 0xffu) << chunk;
  }
}

TEST(BoxImage, WhatANarrowBoxThrowsAwayLiesBehindIt) {
  for (int cols = 8; cols < kSide; cols += 8) {
    EXPECT_LE((BoxImage{kSide, cols}.box_bytes(0, 0)), BoxImage::kUnusedChunk) << cols;
  }
  EXPECT_EQ(BoxImage::kUnusedChunk + BoxImage::kChunkBytes, (BoxImage{kSide, kSide}.box_bytes(0, 0)));
}

}  // namespace
}  // namespace mk::sm90

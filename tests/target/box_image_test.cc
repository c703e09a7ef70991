// SPDX-License-Identifier: MIT
// tests/target/box_image_test.cc — boxes fill a tile's image without gaps, and all agree on where an element is.
#include "target/sm90/box_image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace mk::sm90 {
namespace {

constexpr int kSide = BoxImage::kSide;

// Calls body with the image of every tile up to 256 × 256, rows of all kinds: ones, whole stripes, tails.
template <class Image, class Body>
void for_each_image(Body&& body) {
  for (const int rows : {1, 2, 7, 8, 63, 64, 65, 100, 127, 128, 129, 192, 255, 256}) {
    for (int cols = Image::kVectorCols; cols <= 256; cols += Image::kVectorCols) {
      SCOPED_TRACE(testing::Message() << rows << " x " << cols);
      body(Image{rows, cols});
    }
  }
}

template <class Image>
int bytes_of(const Image& image) {
  return image.rows * image.cols * Image::kElementBytes;
}

// Where the maths job puts a vector, as seen from the image's first byte.
template <class Image>
int staged_at(const Image& image, int row, int col) {
  const int box_row = row / kSide * kSide;
  const int box_col = col / Image::kBoxCols * Image::kBoxCols;
  const int width = std::min(Image::kBoxCols, image.cols - box_col);
  const int vector = (col - box_col) / Image::kVectorCols;
  return image.box_offset(box_row, box_col) + (width == Image::kBoxCols
                                                   ? Image::in_full_box(row - box_row, vector)
                                                   : Image::in_narrow_box(row - box_row, vector, width));
}

// Of elements of 16 and of 32 bits.
template <class Image>
class BoxImages : public testing::Test {};
using Images = testing::Types<BoxImage, BoxImageOf<4>>;
TYPED_TEST_SUITE(BoxImages, Images);

TYPED_TEST(BoxImages, BoxesFollowEachOtherWithoutGapsOrOverlaps) {
  for_each_image<TypeParam>([](const TypeParam& image) {
    int at = 0;
    for (int row = 0; row < image.rows; row += kSide) {
      for (int col = 0; col < image.cols; col += TypeParam::kBoxCols) {
        ASSERT_EQ(image.box_offset(row, col), at);
        ASSERT_GT(image.box_bytes(row, col), 0);
        at += image.box_bytes(row, col);
      }
    }
    ASSERT_EQ(at, bytes_of(image));
  });
}

TYPED_TEST(BoxImages, ABoxBeyondTheEdgesIsEmpty) {
  for_each_image<TypeParam>([](const TypeParam& image) {
    for (int row = 0; row < 256; row += kSide) {
      for (int col = 0; col < 256; col += TypeParam::kBoxCols) {
        if (row < image.rows && col < image.cols) continue;
        ASSERT_EQ(image.box_bytes(row, col), 0);
      }
    }
  });
}

TYPED_TEST(BoxImages, EveryVectorHoldsElementsOfItsOwn) {
  for_each_image<TypeParam>([](const TypeParam& image) {
    const int vectors = image.rows * image.cols / TypeParam::kVectorCols;
    std::vector<int> seen(vectors);
    for (int index = 0; index < vectors; ++index) {
      const typename TypeParam::Element first = image.element_of(index);
      ASSERT_TRUE(first.row >= 0 && first.row < image.rows && first.col >= 0 &&
                  first.col + TypeParam::kVectorCols <= image.cols);
      ASSERT_EQ(first.col % TypeParam::kVectorCols, 0);
      ASSERT_EQ(seen[(first.row * image.cols + first.col) / TypeParam::kVectorCols]++, 0);
    }
    ASSERT_EQ(vectors * TypeParam::kVectorBytes, bytes_of(image));
  });
}

TYPED_TEST(BoxImages, WhoSumsFindsAnElementWhereTheMathsJobPutIt) {
  for_each_image<TypeParam>([](const TypeParam& image) {
    for (int index = 0; index < image.rows * image.cols / TypeParam::kVectorCols; ++index) {
      const typename TypeParam::Element first = image.element_of(index);
      ASSERT_EQ(staged_at(image, first.row, first.col), index * TypeParam::kVectorBytes);
    }
  });
}

// What makes a piece of an image something that TMA can store: it is half a box, in order.
TYPED_TEST(BoxImages, APieceOfAWholeImageIsHalfABox) {
  for_each_image<TypeParam>([](const TypeParam& image) {
    if (!image.is_whole()) return;
    constexpr int kHalf = TypeParam::kBoxBytes / 2;
    for (int first = 0; first < bytes_of(image); first += kHalf) {
      const typename TypeParam::Element at = image.piece_at(first);
      for (int byte = 0; byte < kHalf; byte += TypeParam::kVectorBytes) {
        const typename TypeParam::Element element = image.element_of((first + byte) / TypeParam::kVectorBytes);
        ASSERT_TRUE(element.row >= at.row && element.row < at.row + kSide / 2);
        ASSERT_TRUE(element.col >= at.col && element.col < at.col + TypeParam::kBoxCols);
        ASSERT_EQ(TypeParam::in_full_box(element.row - at.row, (element.col - at.col) / TypeParam::kVectorCols), byte);
      }
    }
  });
}

// Eight rows of one column must come from eight different vectors of 128 bytes: no conflicts in shared memory.
TYPED_TEST(BoxImages, AFullBoxIsSwizzledByTheRow) {
  for (int vector = 0; vector < 8; ++vector) {
    unsigned banks = 0;
    for (int row = 0; row < 8; ++row) banks |= 1u << TypeParam::in_full_box(row, vector) / TypeParam::kVectorBytes % 8;
    EXPECT_EQ(banks, 0xffu) << vector;
  }
}

TYPED_TEST(BoxImages, WhatANarrowBoxThrowsAwayLiesBehindIt) {
  for (int cols = TypeParam::kVectorCols; cols < TypeParam::kBoxCols; cols += TypeParam::kVectorCols) {
    EXPECT_LE((TypeParam{kSide, cols}.box_bytes(0, 0)), TypeParam::kUnusedVector) << cols;
  }
  const TypeParam full{kSide, TypeParam::kBoxCols};
  EXPECT_EQ(TypeParam::kUnusedVector + TypeParam::kVectorBytes, full.box_bytes(0, 0));
}

}  // namespace
}  // namespace mk::sm90

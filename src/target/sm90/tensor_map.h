// SPDX-License-Identifier: MIT
// target/sm90/tensor_map.h — how TMA sees a tensor: up to five dimensions, the innermost first.
//
// TMA reads elements outside the tensor as zero and does not write them, so no caller has to handle tails.  One
// exception: TMA writes the end of a row in whole vectors of 16 bytes, so the rows of a tensor that is written are
// multiples of 16 bytes.  The data pointer and every stride are multiples of 16 bytes too, except the innermost
// stride, which is one element.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <initializer_list>

#include "mkernel/types.h"
#include "target/sm90/ragged_rows.h"
#include "target/sm90/result_boxes.h"

namespace mk::sm90 {

struct TensorView {
  static constexpr int kMostRank = 5;

  const void* data = nullptr;
  DType dtype = DType::kBf16;
  int rank = 1;
  std::array<int64_t, kMostRank> sizes{};    // in elements
  std::array<int64_t, kMostRank> strides{};  // in elements; strides[0] is not looked at

  // One without gaps.
  static TensorView packed(const void* data, DType dtype, std::initializer_list<int64_t> sizes);
};

// How TMA permutes 16-byte vectors in shared memory, within spans of 32, 64 or 128 bytes: the number of the 128-byte
// row is XORed into the vector's index.  kByRow: the span is a row of the box if that is 128, 64 or 32 bytes;
// else as kNone.
enum class Swizzle { kByRow, kNone, k32, k64, k128 };

struct TensorBox {
  std::array<int, TensorView::kMostRank> sizes{};  // 256 at most; a row is a multiple of 16 bytes
  Swizzle swizzle = Swizzle::kByRow;
};

CUtensorMap make_tensor_map(const TensorView& view, const TensorBox& box);

// A matrix that is cut into shards, or a row of matrices: columns, rows of a shard, shards.
struct ShardedMatrix {
  const void* data = nullptr;
  DType dtype = DType::kBf16;
  int64_t cols = 0;
  int64_t shard_rows = 0;
  int64_t shards = 1;
};

// A box is box_cols × box_rows of one shard.
CUtensorMap make_tensor_map(const ShardedMatrix& matrix, int box_cols, int box_rows);

// A matrix in boxes that may end at any row; a copy's coordinates are RaggedRows::box.
CUtensorMap make_ragged_map(const void* data, DType dtype, const RaggedRows& matrix, int box_cols);

// The right operand of a GEMM, in boxes as LoadJob takes them; `shards` of them, one after the other.
template <class Config, BOrder kOrder>
CUtensorMap make_right_map(const void* b, DType dtype, int64_t n, int64_t k, int64_t shards = 1) {
  if constexpr (kOrder == BOrder::kKN) {
    return make_tensor_map(ShardedMatrix{b, dtype, n, k, shards}, Config::kBox, Config::kTileK);
  } else {
    return make_tensor_map(ShardedMatrix{b, dtype, k, n, shards}, Config::kTileK, Config::kTileN / Config::kCluster);
  }
}

// Gate and up, [shards][2][inter][k], as columns of one right operand in turns (GatedColumns in result_boxes.h), in
// boxes of kTileN of them.  Nothing is moved for it: a turn is a dimension of its own.
template <class Config>
CUtensorMap make_gated_map(const void* b, DType dtype, int64_t inter, int64_t k, int64_t shards) {
  constexpr int kTurn = GatedColumns::kTurn;
  const TensorView view{b, dtype, 5, {k, kTurn, 2, inter / kTurn, shards}, {1, k, inter * k, kTurn * k, 2 * inter * k}};
  return make_tensor_map(view, {{Config::kTileK, kTurn, 2, Config::kTileN / (2 * kTurn), 1}});
}

}  // namespace mk::sm90

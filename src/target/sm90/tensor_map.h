// SPDX-License-Identifier: MIT
// target/sm90/tensor_map.h — how TMA sees a matrix that is cut into shards.
//
// Three dimensions: columns, rows of a shard, shards.  What lies outside is read as zero and not
// written, so every tail, the one inside a shard too, is TMA's business.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "mkernel/types.h"

namespace mk::sm90 {

struct ShardedMatrix {
  const void* data = nullptr;
  DType dtype = DType::kBf16;  // bf16 or fp16
  int64_t cols = 0;
  int64_t shard_rows = 0;
  int64_t shards = 1;
};

// A box is box_cols × box_rows of one shard; in shared memory its rows, of 64 or 32 columns, are swizzled over their
// whole 128 or 64 bytes.
CUtensorMap make_tensor_map(const ShardedMatrix& matrix, int box_cols, int box_rows);

// The right operand of a GEMM, in boxes as LoadJob takes them.
template <class Config, BOrder kOrder>
CUtensorMap make_right_map(const void* b, DType dtype, int64_t n, int64_t k) {
  if constexpr (kOrder == BOrder::kKN) {
    return make_tensor_map({b, dtype, n, k, 1}, Config::kBox, Config::kTileK);
  } else {
    return make_tensor_map({b, dtype, k, n, 1}, Config::kTileK, Config::kTileN / Config::kCluster);
  }
}

}  // namespace mk::sm90

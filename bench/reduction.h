// SPDX-License-Identifier: MIT
// bench/reduction.h — sums of partial results, as a kernel for the baselines and as a reference for it.
#pragma once

#include <cstdint>
#include <span>

#include "core/world_shape.h"
#include "mkernel/types.h"

namespace mk::bench {

constexpr int kMostTerms = 16;

// out[i] = terms[0][i] + terms[1][i] + …, in fp32 and in that order, rounded once.  bf16 or fp16; count is a
// multiple of 8 and pointers are 16-byte aligned.  At most kMostTerms terms.
void queue_sum(DType dtype, std::span<const void* const> terms, void* out, int64_t count, Stream stream);

// What a hierarchical scatter leaves of one shard: its owner's node adds its ranks' partials in order, then,
// node by node, what the other nodes have summed and rounded.
struct ReducedShard {
  WorldShape world;
  int owner = 0;
  std::span<const void* const> partials;  // by rank: where the shard begins in each
  const void* out = nullptr;
  int64_t count = 0;  // elements
};

// How many elements of `out` are not bit by bit what the partials give.  Waits for the answer.
int64_t count_unlike(DType dtype, const ReducedShard& shard);

}  // namespace mk::bench

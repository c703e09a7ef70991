// SPDX-License-Identifier: MIT
// target/sm90/attention_backward_config.h — the tile configurations of attention's backward engine.
//
// A visit keeps a tile of keys and values in shared memory and the sums of their gradients in registers; queries pass
// by, block by block.  Each of two consumer warpgroups has 64 keys: scores and their gradients stand transposed, keys
// down and queries across, so that both are the left operands of the sums as they are.  For the gradient of the
// queries, which sums over all keys, they go through shared memory; each consumer computes one 64 × 64 part of it.
#pragma once

#include <cstddef>

#include "target/sm90/gemm_config.h"

namespace mk::sm90 {

template <int kDim>
struct AttentionBackwardConfig {
  static constexpr int kHeadDim = kDim;
  static constexpr int kConsumers = 2;
  static constexpr int kKeys = 64 * kConsumers;                 // of a tile
  static constexpr int kQueries = 64 * kConsumers * 64 / kDim;  // of a block
  static constexpr int kStages = 2;                             // of queries, and of the output's gradients
  static constexpr int kCluster = 1;

  static constexpr int kBox = 64;  // columns: 128 bytes of 16-bit elements, one swizzled row
  static constexpr int kBoxes = kDim / kBox;
  static constexpr int kTileBytes = 2 * kKeys * kDim;      // of keys, or of values
  static constexpr int kBlockBytes = 2 * kQueries * kDim;  // of queries, or of the output's gradients

  // The parts of a block's sums for the queries' gradients: one for each consumer, in rows or in columns.
  static constexpr bool kPartsAreRows = kDim == 64;
  static constexpr int kPartFloats = 64 * 64;
  static constexpr int kBlockFloats = kConsumers * kPartFloats;
  static_assert(kBlockFloats == kQueries * kDim);

  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kJobRegisters = 40;
  static constexpr int kMathsRegisters = 232;

  static_assert(kDim == 64 || kDim == 128, "sums of a wider head do not fit in the registers");
};

}  // namespace mk::sm90

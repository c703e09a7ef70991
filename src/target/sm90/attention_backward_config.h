// SPDX-License-Identifier: MIT
// target/sm90/attention_backward_config.h — the tile configurations of attention's backward engine.
//
// A visit keeps a tile of keys and values in shared memory and the sums of their gradients in registers; queries pass
// by, block by block.  Scores and their gradients stand transposed, keys down and queries across.
//
//   heads up to 128   Each of two consumer warpgroups has 64 keys.  Scores and their gradients are the left operands of
//                     its sums as they lie in registers.  For the gradient of the queries, which sums over all keys,
//                     they go through shared memory; each consumer computes one 64 × 64 part of it.
//   wider heads       The sums of 64 keys are all that fits in the registers of both, so consumers share the keys.
//                     Each weighs half of the queries, and all meet in shared memory; then each has half of the columns
//                     of all sums: two 64 × 64 parts of the gradient of the queries.
#pragma once

#include <cstddef>

#include "target/sm90/gemm_config.h"

namespace mk::sm90 {

template <int kDim>
struct AttentionBackwardConfig {
  static constexpr int kHeadDim = kDim;
  static constexpr int kConsumers = 2;
  static constexpr bool kShareKeys = kDim > 128;
  static constexpr int kKeys = kShareKeys ? 64 : 64 * kConsumers;  // of a tile
  static constexpr int kQueries = kDim == 64 ? 128 : 64;           // of a block
  static constexpr int kStages = 2;                                // of queries
  static constexpr int kGradientStages = kShareKeys ? 1 : 2;       // of the output's gradients
  static constexpr int kCluster = 1;

  // Of a consumer: queries that it weighs, and columns of its sums.
  static constexpr int kWeighed = kShareKeys ? kQueries / kConsumers : kQueries;
  static constexpr int kSumCols = kShareKeys ? kDim / kConsumers : kDim;

  static constexpr int kBox = 64;  // columns: 128 bytes of 16-bit elements, one swizzled row
  static constexpr int kBoxes = kDim / kBox;
  static constexpr int kTileBytes = 2 * kKeys * kDim;      // of keys, or of values
  static constexpr int kBlockBytes = 2 * kQueries * kDim;  // of queries, or of the output's gradients

  // The parts of a block's sums for the queries' gradients, in rows or in columns.  A consumer's follow each other; it
  // hands them on round by round.
  static constexpr bool kPartsAreRows = kDim == 64;
  static constexpr int kPartFloats = 64 * 64;
  static constexpr int kBlockFloats = kQueries * kDim;
  static constexpr int kRounds = kBlockFloats / kPartFloats / kConsumers;
  static constexpr int kParts = kRounds * kConsumers;
  static_assert(kParts * kPartFloats == kBlockFloats);

  static constexpr int kSumBuffers = kShareKeys ? 1 : 2;  // of a consumer, a part each

  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kJobRegisters = kShareKeys ? 56 : 40;
  static constexpr int kMathsRegisters = kShareKeys ? 224 : 232;
  // Whether rows are noted before the maths job takes its registers.  ptxas 13.0 spills in one order, and in the other
  // serializes products or spills.
  static constexpr bool kNotesFirst = kDim == 64;

  static_assert(kDim == 64 || kDim == 128 || kDim == 256);
};

}  // namespace mk::sm90

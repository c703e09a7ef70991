// SPDX-License-Identifier: MIT
// target/sm90/attention_config.h — the tile configurations of the attention engine.
//
// A configuration is a type.  Each consumer warpgroup has 64 query rows of a tile; it keeps their output in registers,
// and scores of a block of keys beside it: kTileN / 2 + kTileN / 4 + kHeadDim / 2 registers of a thread.
#pragma once

#include "target/sm90/gemm_config.h"

namespace mk::sm90 {

// Whether consumers take turns to issue their products, so that one multiplies while another works out exponentials.
enum class Turns { kNone, kTaken };

template <int kDim, int kKeys, Turns kTurns = Turns::kTaken, int kStageCount = 2>
struct AttentionConfig {
  static constexpr int kHeadDim = kDim;
  static constexpr int kConsumers = 2;
  static constexpr int kTileM = 64 * kConsumers;
  static constexpr int kTileN = kKeys;
  static constexpr int kStages = kStageCount;  // of K, and of V
  static constexpr int kCluster = 1;
  static constexpr bool kTakesTurns = kTurns == Turns::kTaken;

  static constexpr int kBox = 64;  // columns: 128 bytes of 16-bit elements, one swizzled row
  static constexpr int kBoxes = kDim / kBox;

  static constexpr int kQueryBytes = 2 * kTileM * kDim;
  static constexpr int kBlockBytes = 2 * kTileN * kDim;  // of K, or of V
  static constexpr int kReservedBytes = 1024 + 512;      // to align the whole to a swizzle atom; barriers, notes
  static constexpr int kForQueries = kSharedLimit - kReservedBytes - 2 * kStages * kBlockBytes;
  static constexpr int kQueryBuffers = kForQueries >= 2 * kQueryBytes ? 2 : 1;

  // Of 65536 registers, 168 a thread at start: the first warpgroup gives what the consumers take.
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr bool kIsTight = kHeadDim > 64;  // registers are short
  static constexpr int kJobRegisters = 72;         // the steps of a protocol need so many
  static constexpr int kMathsRegisters = 216;

  static_assert(kDim % kBox == 0 && kDim <= 256 && kKeys % 16 == 0 && kKeys <= 256);
  static_assert(kForQueries >= kQueryBytes, "stages leave no room for queries");
};

}  // namespace mk::sm90

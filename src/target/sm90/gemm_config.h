// SPDX-License-Identifier: MIT
// target/sm90/gemm_config.h — the tile configurations of the GEMM engine, and which one a shape gets.
//
// A configuration is a type.  Two consumer warpgroups share a tile, cut along m or along n; each keeps its part of C
// in registers.  Shared memory holds the boxes of C and the buffer of a worker inside; the rest is stages of A and B.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>

namespace mk::sm90 {

constexpr int kSharedLimit = 232448;  // bytes a block of sm_90 may have

// kPiece: bytes of a piece of a worker's buffer.  One worker alone copies as fast as its pieces are large.
template <int kM, int kN, int kAlongM, int kCtas, int kBuffers = 2, int kPiece = 2048>
struct GemmConfig {
  static constexpr int kTileM = kM;  // of one block
  static constexpr int kTileN = kN;
  static constexpr int kTileK = 64;  // 128 bytes of 16-bit elements: one swizzled row

  // Blocks of a cluster stand below each other in m and share B by TMA multicast.
  static constexpr int kCluster = kCtas;

  static constexpr int kConsumers = 2;
  static constexpr int kPartM = kM / kAlongM;  // of a consumer
  static constexpr int kPartN = kN / (kConsumers / kAlongM);
  static constexpr int kConsumersAlongM = kAlongM;
  static constexpr int kSlabs = kPartM / 64;  // wgmmas are 64 high

  static constexpr int kBox = 64;  // boxes of C leave, boxes of B as [K,N] come in columns of 64
  static constexpr int kBoxesAcross = (kPartN + kBox - 1) / kBox;
  static constexpr int kBoxesPerPart = kSlabs * kBoxesAcross;
  static constexpr int kStoreBuffers = kBuffers;  // boxes per consumer on their way out

  // With one of them there is room for the buffer of a worker beside the jobs (communication_block.cuh).
  static constexpr int kInsidePieceBytes = kBuffers == 1 ? kPiece : 0;
  static constexpr int kInsideBytes = kBuffers == 1 ? 7 * kInsidePieceBytes + 128 : 0;

  // The last box across a part may be narrow: C then leaves in one of so many columns, and as [K,N] B comes in
  // a whole one, of which the rest is not used.
  static constexpr int kNarrowBox = kPartN % kBox;
  static constexpr bool is_narrow(int col) { return kNarrowBox > 0 && col % kPartN == kPartN - kNarrowBox; }

  static constexpr int kStageN = (kN + kBox - 1) / kBox * kBox;  // columns of B a stage has room for
  static constexpr int kStageBytes = 2 * kTileK * (kM + kStageN);
  static constexpr int kStoreBytes = 2 * kConsumers * kStoreBuffers * kBox * kBox;
  static constexpr int kReservedBytes = 1024 + 512;  // to align the whole to a swizzle atom; barriers
  static constexpr int kStages = (kSharedLimit - kReservedBytes - kStoreBytes - kInsideBytes) / kStageBytes;

  // Of 65536 registers, 168 a thread at start: the first warpgroup gives what the consumers take.
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kJobRegisters = 56;
  static constexpr int kMathsRegisters = 224;

  // The last tile of a block leaves through shared memory that no load needs any more: each consumer's own
  // rows of A.  So all its boxes are staged at once.
  static constexpr bool kLastThroughA = kAlongM == kConsumers;
  static_assert(!kLastThroughA || kStages * (kPartM / 64) >= kBoxesPerPart);

  static_assert(kCtas == 1 || kN / kCtas % kBox == 0, "every block of a cluster loads whole boxes of B");
  static_assert(kPartM % 64 == 0 && kPartM * kPartN <= 64 * 256);
  static_assert(kNarrowBox == 0 || (kNarrowBox == 32 && kPartN == kN), "a narrow box has a swizzle of 64 bytes");
};

// Every tile there is.  Those without a cluster have room for a worker.
using GemmConfigs = std::tuple<GemmConfig<128, 256, 2, 2>, GemmConfig<128, 256, 2, 1, 1>, GemmConfig<256, 128, 2, 1, 1>,
                               GemmConfig<128, 224, 2, 1, 1>, GemmConfig<128, 192, 2, 1, 1>,
                               GemmConfig<128, 128, 2, 1, 1>, GemmConfig<64, 128, 1, 1, 1>>;

// Those of the operators that sum over ranks: blocks by themselves.
using SoloConfigs = std::tuple<GemmConfig<128, 256, 2, 1>, GemmConfig<128, 128, 2, 1>, GemmConfig<64, 128, 1, 1>>;

// A configuration's name: the tile of a block, and how many blocks share B.
struct GemmTile {
  int m = 0;
  int n = 0;
  int cluster = 1;

  friend constexpr bool operator==(const GemmTile&, const GemmTile&) = default;
};

template <class Config>
constexpr GemmTile tile_of() {
  return {Config::kTileM, Config::kTileN, Config::kCluster};
}

// The tiles of a list of configurations, in the same order.
template <class Configs>
constexpr auto tiles_of() {
  return []<size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::array{tile_of<std::tuple_element_t<kIndex, Configs>>()...};
  }
  (std::make_index_sequence<std::tuple_size_v<Configs>>());
}
constexpr auto kGemmTiles = tiles_of<GemmConfigs>();
constexpr auto kSoloTiles = tiles_of<SoloConfigs>();

// What computes: `compute` blocks after `others` of the same grid.  A cluster must not straddle the two, and its blocks
// have no room for a worker inside.
struct GemmBlocks {
  int compute = 1;
  int others = 0;
  bool have_workers = false;
};

struct GemmWork {
  int64_t shard_rows = 0;
  int64_t shards = 1;
  int64_t n = 0;
  int64_t k = 0;
};

// Of `tiles`, the one that computes `work` soonest on so many blocks: whole waves of tiles, each at its rate.
GemmTile choose_tile(std::span<const GemmTile> tiles, const GemmWork& work, const GemmBlocks& blocks);

// Whether so many compute blocks keep step (in_step.cuh): if they are at most half of an H200, and k is long.
constexpr bool keeps_step(int blocks, int64_t k) { return blocks <= 66 && k >= 4096; }

bool fits(const GemmTile& tile, const GemmBlocks& blocks);
bool has_tile(std::span<const GemmTile> tiles, const GemmTile& tile);
std::string names_of(std::span<const GemmTile> tiles);  // "128x256x2, …"

}  // namespace mk::sm90

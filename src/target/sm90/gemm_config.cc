// SPDX-License-Identifier: MIT
// target/sm90/gemm_config.cc — see gemm_config.h.
#include "target/sm90/gemm_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"

namespace mk::sm90 {
namespace {

// Relative rate of a tile's mainloop, in the order of kGemmTiles, measured (docs/performance.md).
constexpr std::array<double, kNumGemmConfigs> kRates = {1.0, 0.99, 0.95, 0.96, 0.89, 0.6};

// Cost of a tile beside its blocks of k, in blocks of k of a 128x256 tile: filling the pipeline, the last store.
constexpr double kFixedBlocks = 3;

}  // namespace

GemmTile choose_tile(const GemmWork& work, int blocks) {
  GemmTile best{};
  double least = 0;
  for (int i = 0; i < kNumGemmConfigs; ++i) {
    const GemmTile tile = kGemmTiles[i];
    if (blocks % tile.cluster != 0) continue;
    const int64_t row_blocks = ceil_div<int64_t>(work.shard_rows, tile.m * tile.cluster);
    const int64_t tiles = work.shards * row_blocks * ceil_div<int64_t>(work.n, tile.n);
    const int64_t waves = ceil_div<int64_t>(tiles, std::max(1, blocks / tile.cluster));
    const double block_cost = tile.m * tile.n / (128.0 * 256.0) / kRates[i];
    const double cost =
        waves * block_cost * static_cast<double>(ceil_div<int64_t>(work.k, 64)) + kFixedBlocks * block_cost;
    if (best.m == 0 || cost < least) {
      best = tile;
      least = cost;
    }
  }
  return best;
}

bool has_tile(const GemmTile& tile) { return std::ranges::find(kGemmTiles, tile) != kGemmTiles.end(); }

std::string tile_names() {
  std::string names;
  for (const GemmTile& tile : kGemmTiles)
    names += fmt::format("{}{}x{}x{}", names.empty() ? "" : ", ", tile.m, tile.n, tile.cluster);
  return names;
}

}  // namespace mk::sm90

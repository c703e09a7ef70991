// SPDX-License-Identifier: MIT
// target/sm90/gemm_config.cc — see gemm_config.h.
#include "target/sm90/gemm_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"

namespace mk::sm90 {
namespace {

// How fast a tile's mainloop is beside the best, measured (docs/performance.md).
double rate_of(const GemmTile& tile) {
  struct Rated {
    GemmTile tile;
    double rate;
  };
  constexpr Rated kRates[] = {{{128, 256, 2}, 1.0},  {{128, 256, 1}, 0.99}, {{256, 128, 1}, 0.95},
                              {{128, 224, 1}, 0.91}, {{128, 192, 1}, 0.96}, {{128, 128, 1}, 0.89},
                              {{64, 128, 1}, 0.6}};
  static_assert(std::size(kRates) == kGemmTiles.size());
  return std::ranges::find(kRates, tile, &Rated::tile)->rate;
}

// Cost of a block's first and last tile beside blocks of k, in blocks of k: filling the pipeline, the last store.
constexpr double kFixedBlocks = 3;

}  // namespace

GemmTile choose_tile(std::span<const GemmTile> tiles, const GemmWork& work, const GemmBlocks& blocks) {
  GemmTile best = tiles.back();
  double least = 0;
  for (const GemmTile& tile : tiles) {
    if (!fits(tile, blocks)) continue;
    const int64_t row_blocks = ceil_div<int64_t>(work.shard_rows, tile.m * tile.cluster);
    const int64_t num_tiles = work.shards * row_blocks * ceil_div<int64_t>(work.n, tile.n);
    const int64_t waves = ceil_div<int64_t>(num_tiles, std::max(1, blocks.compute / tile.cluster));
    const double block_cost = tile.m * tile.n / (128.0 * 256.0) / rate_of(tile);
    const double blocks_of_k = static_cast<double>(ceil_div<int64_t>(work.k, 64));
    const double cost = block_cost * (static_cast<double>(waves) * blocks_of_k + kFixedBlocks);
    if (least == 0 || cost < least) {
      best = tile;
      least = cost;
    }
  }
  return best;
}

bool fits(const GemmTile& tile, const GemmBlocks& blocks) {
  return blocks.compute % tile.cluster == 0 && blocks.others % tile.cluster == 0;
}

bool has_tile(std::span<const GemmTile> tiles, const GemmTile& tile) {
  return std::ranges::find(tiles, tile) != tiles.end();
}

std::string names_of(std::span<const GemmTile> tiles) {
  std::string names;
  for (const GemmTile& tile : tiles) {
    names += fmt::format("{}{}x{}x{}", names.empty() ? "" : ", ", tile.m, tile.n, tile.cluster);
  }
  return names;
}

}  // namespace mk::sm90

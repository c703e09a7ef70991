// SPDX-License-Identifier: MIT
// target/sm90/gemm_config.cc — see gemm_config.h.
#include "target/sm90/gemm_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"

namespace mk::sm90 {
namespace {

// What a tile costs, measured (docs/performance.md): its mainloop's speed beside the best; and in blocks of k a
// launch, for filling the pipeline and the last store, and the border between two tiles.
struct Cost {
  GemmTile tile;
  double rate;
  double launch = 3;
  double border = 0.25;
};

const Cost& cost_of(const GemmTile& tile) {
  static constexpr Cost kCosts[] = {{{128, 256, 2}, 1.0, 6, 0},  // it takes longer to start, and less from the L2
                                    {{128, 256, 1}, 0.995},     {{256, 128, 1}, 0.95}, {{128, 224, 1}, 0.91},
                                    {{128, 192, 1}, 0.96},      {{128, 128, 1}, 0.89}, {{64, 128, 1}, 0.6}};
  static_assert(std::size(kCosts) == kGemmTiles.size());
  return *std::ranges::find(kCosts, tile, &Cost::tile);
}

}  // namespace

GemmTile choose_tile(std::span<const GemmTile> tiles, const GemmWork& work, const GemmBlocks& blocks) {
  GemmTile best = tiles.back();
  double least = 0;
  for (const GemmTile& tile : tiles) {
    if (!fits(tile, blocks)) continue;
    const int64_t row_blocks = ceil_div<int64_t>(work.shard_rows, tile.m * tile.cluster);
    const int64_t num_tiles = work.shards * row_blocks * ceil_div<int64_t>(work.n, tile.n);
    const int64_t waves = ceil_div<int64_t>(num_tiles, std::max(1, blocks.compute / tile.cluster));
    const Cost& its = cost_of(tile);
    const double block_cost = tile.m * tile.n / (128.0 * 256.0) / its.rate;
    const double blocks_of_k = static_cast<double>(ceil_div<int64_t>(work.k, 64)) + its.border;
    const double cost = block_cost * (static_cast<double>(waves) * blocks_of_k + its.launch);
    if (least == 0 || cost < least) {
      best = tile;
      least = cost;
    }
  }
  return best;
}

bool fits(const GemmTile& tile, const GemmBlocks& blocks) {
  if (tile.cluster == 1) return true;
  return !blocks.have_workers && blocks.compute % tile.cluster == 0 && blocks.others % tile.cluster == 0;
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

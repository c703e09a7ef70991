// SPDX-License-Identifier: MIT
// target/sm90/gemm_config.cc — see gemm_config.h.
#include "target/sm90/gemm_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "target/h200.h"

namespace mk::sm90 {

static_assert(std::ranges::equal(kGemmTiles, h200::kTileCosts, [](const GemmTile& tile, const h200::TileCost& its) {
  return tile == GemmTile{its.m, its.n, its.cluster};
}));

GemmTile choose_tile(std::span<const GemmTile> tiles, const GemmWork& work, const GemmBlocks& blocks) {
  GemmTile best = tiles.back();
  double least = 0;
  for (const GemmTile& tile : tiles) {
    if (!fits(tile, blocks)) continue;
    const int64_t row_blocks = ceil_div<int64_t>(work.shard_rows, tile.m * tile.cluster);
    const int64_t num_tiles = work.shards * row_blocks * ceil_div<int64_t>(work.n, tile.n);
    const int64_t waves = ceil_div<int64_t>(num_tiles, std::max(1, blocks.compute / tile.cluster));
    const h200::TileCost its = h200::cost_of_tile(tile.m, tile.n, tile.cluster);
    const double blocks_of_k = h200::blocks_of_k(work.k) + its.border;
    const double cost = its.block_cost() * (static_cast<double>(waves) * blocks_of_k + its.launch);
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

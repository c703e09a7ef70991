// SPDX-License-Identifier: MIT
// ops/moe/layer_load.cuh — the load job's walk over tiles of both GEMMs of a layer, in either pass.
#pragma once

#include "ops/moe/moe_layer_protocol.h"
#include "target/sm90/claiming_machine.cuh"
#include "target/sm90/gemm_load.cuh"

namespace mk::moe {

// `operands(is_second)` are those of a GEMM; `give_turn()` says that tiles of the second follow those of the first;
// `give(tile, alive)` hands a tile to the other jobs: false, if its operands did not come in time.  False if there are
// no tiles because the launch was refused or the plan did not come; `alive` says whether operands of all tiles came.
template <class Config, class Job, class Operands, class GiveTurn, class Give>
__device__ __forceinline__ bool load_layer_tiles(sm90::ClaimingMachine& machine, const LayerLayout& layout,
                                                 const Post& post, Job& job, const Operands& operands,
                                                 const GiveTurn& give_turn, const Give& give, bool& alive) {
  bool was_second = false;
  sm90::TileCoords at{.row = -1};  // of the tile before
  const auto load_rest = [&](const auto& meanwhile) {
    if (at.row >= 0) job.load_rest(operands(was_second), at, meanwhile);
  };
  int band = -1;
  const bool goes_on = for_each_tile(machine, layout, post, [&](const LayerTile& tile) {
    const uint64_t due = tile.is_second ? 0 : rows_due(machine, layout, tile);
    load_rest([&] {
      if (!tile.is_second) machine.look(layout.arrived(tile.block), due);
    });
    if (tile.is_second && !was_second) give_turn();
    was_second = tile.is_second;
    const bool is_first = at.row < 0;
    at = {.row = static_cast<int>(tile.row), .col = tile.col_block * Config::kTileN, .b_shard = tile.expert};
    if (is_first) job.begin_b(operands(tile.is_second), at);
    alive = alive && load_step(machine, layout, tile, due, band);
    give(tile, alive);
    job.load_most(operands(tile.is_second), at, [&] { machine.ask(); });
    return true;
  });
  load_rest([] {});
  return goes_on;
}

}  // namespace mk::moe

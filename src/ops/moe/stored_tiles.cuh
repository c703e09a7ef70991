// SPDX-License-Identifier: MIT
// ops/moe/stored_tiles.cuh — one thread of a block stores its tiles, and a warp beside it tells who waits for them.
//
// To tell takes a fence, which waits for much that is under way on the SM: as long as a tile of a short k.  So whoever
// stores does not tell.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "ops/moe/moe_layer_protocol.h"
#include "target/sm90/gemm_store.cuh"
#include "target/sm90/pipeline.cuh"
#include "target/sm90/ragged_rows.h"
#include "target/sm90/tile_queue.cuh"

namespace mk::moe {

// Tiles that have landed, in the order of the queue.  Who tells frees a tile's entry of the queue when it has told, so
// who stores is never further ahead than there are entries.
template <class Tile>
struct StoredTiles {
  static constexpr int kSlots = sm90::TileQueue<Tile>::kNumSlots;
  uint64_t landed[kSlots];

  // One lane, before begin_jobs.
  __device__ void prepare() {
    for (uint64_t& barrier : landed) sm90::ptx::mbarrier_init(&barrier, 1);
    sm90::barriers_before_use();
  }
};

// The thread that stores, and lanes of the warp that tells, have one each.
template <class Tile>
class StoredCursor {
 public:
  __device__ explicit StoredCursor(StoredTiles<Tile>& tiles) : tiles_(tiles) {}

  // All of the next tile has landed; what this thread can see of it, whoever waits can see too.
  __device__ void say() {
    sm90::ptx::mbarrier_arrive(&tiles_.landed[cursor_.slot]);
    ++cursor_;
  }
  __device__ void wait() {
    sm90::wait_phase(&tiles_.landed[cursor_.slot], cursor_.phase);
    ++cursor_;
  }

 private:
  StoredTiles<Tile>& tiles_;
  sm90::Cursor<StoredTiles<Tile>::kSlots> cursor_;
};

// What the warp that tells does for a tile of either GEMM.  It finds out whom to tell before the tile has landed.
template <class Machine, class L, class Queued, class Body>
__device__ void tell_when_stored(Machine& machine, const L& layout, const LayerTile& tile, bool is_here,
                                 StoredCursor<Queued>& stored, Body& body) {
  if (tile.is_second) {
    const Deliverers<Machine> deliverers(machine, layout, tile);
    stored.wait();
    if (is_here) tell_returned(machine, layout, tile, deliverers, body);
  } else {
    stored.wait();
    if (is_here) tell_activated(machine, layout, tile);
  }
}

// Results of a tile to `map` (make_ragged_map); nothing if its operands did not come.  They have landed when this
// returns.
template <class Boxes, class Job, class Tile>
__device__ void store_rows(Job& job, const CUtensorMap* map, const Tile& tile, bool is_here) {
  job.template store<Boxes>([&](const auto* box, int row, int col) {
    if (!is_here || row >= tile.rows) return;
    const int rows = min_of(Boxes::kRows, tile.rows - row);
    const auto to = sm90::RaggedRows::box(tile.col_block * Boxes::kTileN + col, static_cast<int>(tile.row) + row, rows,
                                          Boxes::kRows);
    sm90::store_result(map, to.at, box);
  });
  job.finish();
}

}  // namespace mk::moe

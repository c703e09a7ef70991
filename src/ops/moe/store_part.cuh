// SPDX-License-Identifier: MIT
// ops/moe/store_part.cuh — a warp stores its part of a tile of rows that may end anywhere.
//
// One warp does not keep up with the second GEMM of a layer, whose k is short: it has to find out whom to tell.  Where
// consumers have rows of their own, each has a warp, and the part of the tile with its rows is that warp's tile.
#pragma once

#include <type_traits>

#include "target/sm90/gemm_store.cuh"
#include "target/sm90/ragged_rows.h"

namespace mk::moe {

template <class Config>
constexpr bool kStoresApart = Config::kConsumersAlongM == Config::kConsumers;
template <class Config>
constexpr int kStoreWarps = kStoresApart<Config> ? Config::kConsumers : 1;

// All lanes call each function.  `part` is the number of the warp; tiles are its parts.
template <class Config, class Element>
class StorePart {
 public:
  using Job = std::conditional_t<kStoresApart<Config>, sm90::ConsumerStoreJob<Config, Element>,
                                 sm90::StoreJob<Config, Element>>;

  __device__ StorePart(sm90::GemmShared<Config, Element>& shared, int part)
      : job_(make_job(shared, part)), first_(part * kRows) {}

  __device__ Job& job() { return job_; }

  // The warp's part of a tile; it may have no rows.
  template <class Tile>
  __device__ Tile part_of(Tile tile) const {
    tile.row += first_;
    tile.rows = max(0, min(kRows, tile.rows - first_));
    return tile;
  }

  // Results of a part to `map` (make_ragged_map); all have landed when this returns.  Not if the tile is void.
  template <class Boxes, class Tile>
  __device__ void store(const CUtensorMap* map, const Tile& tile, bool is_void) {
    if (sm90::is_one_lane()) {
      job_.template store<Boxes>([&](const Element* box, int row, int col) {
        const int first = row - first_;
        if (is_void || first >= tile.rows) return;
        const int rows = min_of(Boxes::kRows, tile.rows - first);
        const auto to = sm90::RaggedRows::box(tile.col_block * Boxes::kTileN + col, static_cast<int>(tile.row) + first,
                                              rows, Boxes::kRows);
        sm90::store_result(map, to.at, box);
      });
      job_.finish();
    } else {
      job_.template pass<Boxes>();
    }
    __syncwarp();
  }

 private:
  static_assert(Config::kTileM % 64 == 0);
  static constexpr int kRows = Config::kTileM / kStoreWarps<Config>;

  __device__ static Job make_job(sm90::GemmShared<Config, Element>& shared, int part) {
    if constexpr (kStoresApart<Config>) {
      return Job(shared, part);
    } else {
      return Job(shared);
    }
  }

  Job job_;
  const int first_;  // row of the tile
};

}  // namespace mk::moe

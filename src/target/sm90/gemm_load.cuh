// SPDX-License-Identifier: MIT
// target/sm90/gemm_load.cuh — the load job: a warp brings blocks of k of A and B by TMA.
//
// A launch is over no sooner than its first copy lets it, so this warp waits for nobody before that: it prepares its
// barriers itself and fills the first stages before the block meets.
#pragma once

#include "base/math.h"
#include "target/sm90/gemm_shared.cuh"

namespace mk::sm90 {

template <class Config, class Element, BOrder kOrder>
class LoadJob {
 public:
  __device__ LoadJob(GemmShared<Config, Element>& shared, const CUtensorMap* b, int64_t k)
      : shared_(shared), b_(b), k_blocks_(static_cast<int>((k + Config::kTileK - 1) / Config::kTileK)) {
    prepare_loads(shared);
    loads_prepared<Config>();
  }

  // The whole warp calls this, and what comes after it.
  __device__ void load(const CUtensorMap* a, const TileCoords& at) {
    const int begun = tiles_ == 0 ? begin(a, at) : 0;
    if (is_one_lane()) {
      if (begun > 0) wait_phase(&shared_.full[0], 0);  // see begin
      for (int block = begun; block < k_blocks_; ++block) {
        wait_phase(&shared_.empty[cursor_.slot], cursor_.phase ^ 1);
        load_block(a, at, block);
      }
    }
    ++tiles_;
    __syncwarp();
  }

  // A block may have no tile at all.
  __device__ void finish() {
    if (tiles_ == 0) begin_loads<Config>();
  }

  // The tile that comes next and all after it have no rows; they are loaded all the same.
  __device__ void give_up() {
    if (is_one_lane()) shared_.void_from = tiles_;
  }

 private:
  // A block loads its part of B's columns, for every block of the cluster.
  static constexpr int kCols = Config::kTileN / Config::kCluster;

  // Rows of B as [N,K] are no boxes: none is loaded in vain.
  static constexpr int kBlockBytes =
      kOrder == BOrder::kNK ? 2 * Config::kTileK * (Config::kTileM + Config::kTileN) : Config::kStageBytes;

  // Meets the block; says how many blocks of k of the first tile are under way.  All at once would come in at the same
  // late time, so half of the stages wait until the first block is there.  Stages of a cluster are filled by all its
  // blocks, so there none is before all have met.
  __device__ int begin(const CUtensorMap* a, const TileCoords& at) {
    const int fresh = Config::kCluster > 1 ? 0 : min_of(Config::kStages / 2, k_blocks_);
    if (is_one_lane()) {
#pragma unroll 1  // little code: it comes out of memory, too
      for (int block = 0; block < fresh; ++block) load_block(a, at, block);
    }
    __syncwarp();
    begin_loads<Config>();
    return fresh;
  }

  // Into a stage that is empty.
  __device__ void load_block(const CUtensorMap* a, const TileCoords& at, int block) {
    uint64_t* full = &shared_.full[cursor_.slot];
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full, uint32_t{kBlockBytes});
    const int32_t from[3] = {block * Config::kTileK, at.row, at.a_shard};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, shared_.a[cursor_.slot], a, from, full);
    load_b(block * Config::kTileK, at.col, full);
    ++cursor_;
  }

  __device__ void load_b(int k, int col, uint64_t* full) {
    const int first = Config::kCluster > 1 ? static_cast<int>(block_in_cluster()) * kCols : 0;
    if constexpr (kOrder == BOrder::kNK) {
      const int32_t from[3] = {k, col + first, 0};
      load_box(first * Config::kTileK, from, full);
    } else {
#pragma unroll
      for (int box = 0; box < kCols; box += Config::kBox) {
        const int32_t from[3] = {col + first + box, k, 0};
        load_box((first + box) * Config::kTileK, from, full);
      }
    }
  }

  __device__ void load_box(int to, const int32_t (&from)[3], uint64_t* full) {
    Element* b = shared_.b[cursor_.slot] + to;
    if constexpr (Config::kCluster > 1) {
      constexpr uint16_t kEveryBlock = (1 << Config::kCluster) - 1;
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, b, b_, from, full, kEveryBlock);
    } else {
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, b, b_, from, full);
    }
  }

  GemmShared<Config, Element>& shared_;
  const CUtensorMap* b_;
  const int k_blocks_;
  Cursor<Config::kStages> cursor_;
  int64_t tiles_ = 0;
};

}  // namespace mk::sm90

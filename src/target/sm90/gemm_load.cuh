// SPDX-License-Identifier: MIT
// target/sm90/gemm_load.cuh — the load job: a warp brings blocks of k of A and B by TMA.
#pragma once

#include "target/sm90/gemm_shared.cuh"

namespace mk::sm90 {

template <class Config, class Element, BOrder kOrder>
class LoadJob {
 public:
  __device__ LoadJob(GemmShared<Config, Element>& shared, const CUtensorMap* b, int64_t k)
      : shared_(shared), b_(b), k_blocks_(static_cast<int>((k + Config::kTileK - 1) / Config::kTileK)) {}

  // The whole warp calls this.
  __device__ void load(const CUtensorMap* a, const TileCoords& at) {
    if (tiles_ == 0) begin_jobs<Config>();  // the first tile was worked out while others prepared
    if (threadIdx.x % 32 == 0) load_blocks(a, at);
    ++tiles_;
    __syncwarp();
  }

  // A block may have no tile at all.
  __device__ void finish() {
    if (tiles_ == 0) begin_jobs<Config>();
  }

  // The tile that comes next and all after it have no rows; they are loaded all the same.
  __device__ void give_up() {
    if (threadIdx.x % 32 == 0) shared_.void_from = tiles_;
  }

 private:
  // A block loads its part of B's columns, for every block of the cluster.
  static constexpr int kCols = Config::kTileN / Config::kCluster;

  __device__ void load_blocks(const CUtensorMap* a, const TileCoords& at) {
    for (int block = 0; block < k_blocks_; ++block, ++cursor_) {
      uint64_t* full = &shared_.full[cursor_.slot];
      wait_phase(&shared_.empty[cursor_.slot], cursor_.phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full,
                                     uint32_t{Config::kStageBytes});
      const int32_t from[3] = {block * Config::kTileK, at.row, at.a_shard};
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, shared_.a[cursor_.slot], a, from, full);
      load_b(block * Config::kTileK, at.col, full);
    }
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

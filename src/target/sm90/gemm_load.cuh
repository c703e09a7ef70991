// SPDX-License-Identifier: MIT
// target/sm90/gemm_load.cuh — the load job: a warp brings blocks of k of A and B by TMA.
//
// A launch is over no sooner than its first copy lets it, so this warp waits for nobody before that: it prepares its
// barriers itself and fills the first stages before the block meets.
#pragma once

#include "base/math.h"
#include "mkernel/types.h"
#include "target/sm90/gemm_shared.cuh"
#include "target/sm90/ragged_rows.h"
#include "target/sm90/result_boxes.h"

namespace mk::sm90 {

// kMayGate: some tiles have a right operand of gate and up (make_gated_map).
template <class Config, class Element, BOrder kOrder, bool kMayGate = false>
class LoadJob {
  static_assert(!kMayGate || (kOrder == BOrder::kNK && Config::kCluster == 1));

 public:
  __device__ explicit LoadJob(GemmShared<Config, Element>& shared) : shared_(shared) {
    prepare_loads(shared);
    prepared<Config>();
  }

  // The whole warp calls this, and what comes after it.
  //
  // Meets the block before the first tile: where its rows may come by another warp of the block.
  __device__ void meet() {
    wait_for_prepared<Config>();
    has_met_ = true;
  }

  // Meets the block, with some blocks of k of the first tile under way.  All at once would come in at the same late
  // time, so half of the stages wait until the first block is there.  Stages of a cluster are filled by all its blocks,
  // so there only A comes before all have met.
  __device__ void begin(const TileOperands& of, const TileCoords& at) {
    begun_ = min_of(Config::kCluster > 1 ? Config::kStages : Config::kStages / 2, of.k_blocks);
    if (is_one_lane()) {
#pragma unroll 1  // little code: it comes out of memory, too
      for (int block = 0; block < begun_; ++block) {
        if constexpr (Config::kCluster > 1) {
          load_a(of, at, block, block);
        } else {
          load_block(of, at, block);
        }
      }
    }
    __syncwarp();
    if (!has_met_) wait_for_prepared<Config>();
    if (Config::kCluster > 1 && is_one_lane()) {
#pragma unroll 1
      for (int block = 0; block < begun_; ++block, ++cursor_) load_b(of, at, block, block);
    }
  }

  // Begins, too, if that was not done.
  __device__ void load(const TileOperands& of, const TileCoords& at) {
    if (begun_ == 0) begin(of, at);
    const int begun = tiles_ == 0 ? begun_ : 0;
    if (is_one_lane()) {
      if (Config::kCluster == 1 && begun > 0) wait_phase(&shared_.full[0], 0);  // see begin
      for (int block = begun; block < of.k_blocks; ++block) {
        wait_phase(&shared_.empty[cursor_.slot], cursor_.phase ^ 1);
        load_block(of, at, block);
      }
    }
    ++tiles_;
    __syncwarp();
  }

  // The same in two parts, after meet() and begin_b(): most blocks of k, and the rest.  Between them the caller may
  // look for the next tile, while those that are loaded are multiplied.  What takes a microsecond in each part is
  // `meanwhile`: a few blocks before the end of the first, and before the last block.
  template <class Meanwhile>
  __device__ void load_most(const TileOperands& of, const TileCoords& at, const Meanwhile& meanwhile) {
    const int early = max(0, first_of_rest(of) - 2);
    load_blocks(of, at, 0, early);
    meanwhile();
    load_blocks(of, at, early, first_of_rest(of));
  }
  template <class Meanwhile>
  __device__ void load_rest(const TileOperands& of, const TileCoords& at, const Meanwhile& meanwhile) {
    load_blocks(of, at, first_of_rest(of), of.k_blocks - 1);
    meanwhile();
    load_blocks(of, at, of.k_blocks - 1, of.k_blocks);
    ++tiles_;
  }

  // Fills all stages with B of the first tile: its rows of A may come later.
  __device__ void begin_b(const TileOperands& of, const TileCoords& at) {
    if (is_one_lane()) {
#pragma unroll 1
      for (int block = 0; block < min_of(Config::kStages, of.k_blocks); ++block) {
        expect_block(block);
        load_b(of, at, block, block);
      }
    }
    __syncwarp();
  }

  // A product over rows: A lies as [row, m] and B as [row, n], both in boxes of 64 columns and up to kTileK rows
  // (RaggedRows), and `at` says where m and n begin.  Behind the last of `rows`, at least 1, there are zeros.  Not
  // before meet().
  __device__ void load_over_rows(const TileOperands& of, const TileCoords& at, int first_row, int rows) {
    static_assert(Config::kCluster == 1);
    if (is_one_lane()) {
      for (int block = 0; block < of.k_blocks; ++block, ++cursor_) {
        const int stage = cursor_.slot;
        uint64_t* const full = &shared_.full[stage];
        wait_phase(&shared_.empty[stage], cursor_.phase ^ 1);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full,
                                       uint32_t{Config::kStageBytes});
        const int first = block * Config::kTileK;
        const int count = min_of(Config::kTileK, rows - first);
        const auto load_boxes = [&](Element* to, const CUtensorMap* map, int col, int cols) {
          for (int box = 0; box < cols; box += Config::kBox) {
            const auto from = RaggedRows::box(col + box, first_row + first, count, Config::kTileK);
            ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, to + box * Config::kTileK, map, from.at,
                                      full);
          }
        };
        load_boxes(shared_.a[stage], of.a, at.row, Config::kTileM);
        load_boxes(shared_.b[stage], of.b, at.col, Config::kStageN);
      }
    }
    ++tiles_;
    __syncwarp();
  }

  // A block may have no tile at all.  Blocks of a cluster free this one's stages from afar: it stays until they have.
  __device__ void finish() {
    if (begun_ == 0 && !has_met_) wait_for_prepared<Config>();
    if constexpr (Config::kCluster > 1) {
      if (is_one_lane()) {
        for (int stage = 0; stage < Config::kStages; ++stage, ++cursor_) {
          wait_phase(&shared_.empty[cursor_.slot], cursor_.phase ^ 1);
        }
      }
      __syncwarp();
    }
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

  __device__ static int first_of_rest(const TileOperands& of) { return max(0, of.k_blocks - Config::kStages); }
  __device__ void load_blocks(const TileOperands& of, const TileCoords& at, int first, int last) {
    static_assert(Config::kCluster == 1);
    if (is_one_lane()) {
      for (int block = first; block < last; ++block) {
        if (tiles_ == 0 && block < Config::kStages) {  // see begin_b
          load_expected_a(of, at, block, block);
          ++cursor_;
        } else {
          wait_phase(&shared_.empty[cursor_.slot], cursor_.phase ^ 1);
          load_block(of, at, block);
        }
      }
    }
    __syncwarp();
  }

  // Into a stage that is empty.
  __device__ void load_block(const TileOperands& of, const TileCoords& at, int block) {
    load_a(of, at, block, cursor_.slot);
    load_b(of, at, block, cursor_.slot);
    ++cursor_;
  }

  __device__ void load_a(const TileOperands& of, const TileCoords& at, int block, int stage) {
    expect_block(stage);
    load_expected_a(of, at, block, stage);
  }
  __device__ void expect_block(int stage) {
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &shared_.full[stage],
                                   uint32_t{kBlockBytes});
  }
  __device__ void load_expected_a(const TileOperands& of, const TileCoords& at, int block, int stage) {
    const int32_t from[3] = {block * Config::kTileK, at.row, at.a_shard};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, shared_.a[stage], of.a, from,
                              &shared_.full[stage]);
  }

  __device__ void load_b(const TileOperands& of, const TileCoords& at, int block, int stage) {
    const int k = block * Config::kTileK;
    const int first = Config::kCluster > 1 ? static_cast<int>(block_in_cluster()) * kCols : 0;
    if (kMayGate && of.is_gated) {
      const int32_t from[5] = {k, 0, 0, at.col / (2 * GatedColumns::kTurn), at.b_shard};
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, shared_.b[stage], of.b, from,
                                &shared_.full[stage]);
    } else if constexpr (kOrder == BOrder::kNK) {
      const int32_t from[3] = {k, at.col + first, at.b_shard};
      load_box(of.b, stage, first * Config::kTileK, from);
    } else {
#pragma unroll
      for (int box = 0; box < kCols; box += Config::kBox) {
        const int32_t from[3] = {at.col + first + box, k, at.b_shard};
        load_box(of.b, stage, (first + box) * Config::kTileK, from);
      }
    }
  }

  __device__ void load_box(const CUtensorMap* map, int stage, int to, const int32_t (&from)[3]) {
    uint64_t* full = &shared_.full[stage];
    Element* b = shared_.b[stage] + to;
    if constexpr (Config::kCluster > 1) {
      constexpr uint16_t kEveryBlock = (1 << Config::kCluster) - 1;
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, b, map, from, full, kEveryBlock);
    } else {
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, b, map, from, full);
    }
  }

  GemmShared<Config, Element>& shared_;
  Cursor<Config::kStages> cursor_;
  bool has_met_ = false;
  int begun_ = 0;  // blocks of k of the first tile that did not wait for a stage
  int64_t tiles_ = 0;
};

}  // namespace mk::sm90

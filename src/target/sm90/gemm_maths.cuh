// SPDX-License-Identifier: MIT
// target/sm90/gemm_maths.cuh — the maths job: a warpgroup multiplies its part of each tile.
//
// One group of wgmmas is always in flight inside a tile.  A finished tile is rounded to 16 bits, which
// halves its registers, and is handed to the store job box by box between the first blocks of k of the
// next tile, while the tensor cores work on that one.
#pragma once

#include "target/sm90/box_image.h"
#include "target/sm90/epilogue.cuh"
#include "target/sm90/gemm_shared.cuh"
#include "target/sm90/wgmma.cuh"

namespace mk::sm90 {

// How a box of C is staged: as TMA wants it for a tensor store, or as an image (box_image.h), whose boxes at
// the right edge are narrower.
enum class Staging { kTensor, kImage };

template <class Config, class Element, BOrder kOrder, Staging kStaging = Staging::kTensor>
class MathsJob {
  static_assert(kStaging == Staging::kTensor || Config::kNarrowBox == 0,
                "boxes of an image are narrow at its edge only");

 public:
  // The consumers are the second warpgroup of the block and those after it.
  __device__ MathsJob(GemmShared<Config, Element>& shared, int64_t k)
      : shared_(shared), k_blocks_(static_cast<int>((k + Config::kTileK - 1) / Config::kTileK)) {}

  // Every sum passes `hook`, of epilogue.cuh.  `cols` are left of C from the tile's first column on.
  template <class Hook>
  __device__ void multiply(int tile_col, int cols, const Hook& hook) {
    Sums sums;
    int block = 0;
    if (pending_) {
#pragma unroll
      for (int box = 0; box < Config::kBoxesPerPart; ++box) {
        if (block < k_blocks_) multiply_block(sums, block++);
        hand_out(box);
      }
    }
    for (; block < k_blocks_; ++block) multiply_block(sums, block);
    wgmma_wait<0>();
#pragma unroll
    for (int slab = 0; slab < Config::kSlabs; ++slab) wgmma_results(sums[slab]);
    release_stage_before();
    round(sums, tile_col + part_col(), hook);
    pending_ = true;
    if constexpr (kStaging == Staging::kImage) pending_cols_ = cols - part_col();
  }

  // Hands the last tile out.
  __device__ void finish() {
    if (!pending_) return;
#pragma unroll
    for (int box = 0; box < Config::kBoxesPerPart; ++box) {
      if constexpr (Config::kLastThroughA) {
        write_box(box, last_box(shared_, consumer(), box));
        tell(&shared_.last_full[consumer()][box]);
      } else {
        hand_out(box);
      }
    }
  }

 private:
  // Registers are scarce here: what is cheap to work out again is not kept.
  __device__ static int consumer() { return static_cast<int>(threadIdx.x) / 128 - 1; }
  __device__ static int thread() { return static_cast<int>(threadIdx.x) % 128; }

  using Sums = float[Config::kSlabs][Config::kPartN / 2];

  __device__ int part_row() const { return Config::kConsumersAlongM == 1 ? 0 : consumer() * Config::kPartM; }
  __device__ int part_col() const { return Config::kConsumersAlongM == 1 ? consumer() * Config::kPartN : 0; }

  // Frees the stage of the block before the one that comes next.
  __device__ void release_stage_before() {
    const int stage = (cursor_.slot == 0 ? Config::kStages : cursor_.slot) - 1;
    if constexpr (Config::kCluster > 1) {
      if (thread() < Config::kCluster) arrive_in_cluster(&shared_.empty[stage], thread());
    } else {
      if (thread() == 0) ptx::mbarrier_arrive(&shared_.empty[stage]);
    }
  }

  __device__ void multiply_block(Sums& sums, int block) {
    const int stage = cursor_.slot;
    wait_phase(&shared_.full[stage], cursor_.phase);
    const uint32_t a = shared_address(shared_.a[stage]) + part_row() * 128;
    const uint32_t b = shared_address(shared_.b[stage]) + part_col() * 128;  // in either order of B
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < Config::kTileK / 16; ++step) {
#pragma unroll
      for (int slab = 0; slab < Config::kSlabs; ++slab) {
        wgmma<Element, Config::kPartN, kOrder>(sums[slab], wgmma_operand(a + slab * 64 * 128 + step * 32, 16, 1024),
                                               operand_b(b, step), block > 0 || step > 0);
      }
    }
    wgmma_commit();
    wgmma_wait<1>();  // the block before is done, its stage may be refilled
    if (block > 0) release_stage_before();
    ++cursor_;
  }

  // Rows of 128 bytes in groups of 8.  [N,K]: as A, 16 of k are 32 bytes on.  [K,N]: boxes of 64 columns,
  // in each k by k.
  __device__ static uint64_t operand_b(uint32_t b, int step) {
    if constexpr (kOrder == BOrder::kNK) {
      return wgmma_operand(b + step * 32, 16, 1024);
    } else {
      return wgmma_operand(b + step * 2048, Config::kTileK * 128, 1024);
    }
  }

  template <class Hook>
  __device__ void round(Sums& sums, int col, const Hook& hook) {
    const int first = col + thread() % 4 * 2;
#pragma unroll
    for (int slab = 0; slab < Config::kSlabs; ++slab) {
#pragma unroll
      for (int i = 0; i < Config::kPartN / 2; i += 2) {
        hook(sums[slab][i], sums[slab][i + 1], first + i / 4 * 8);
        rounded_[slab][i / 2] = pack<Element>(sums[slab][i], sums[slab][i + 1]);
      }
    }
  }

  __device__ void hand_out(int box) {
    const int buffer = c_cursor_.slot;
    wait_phase(&shared_.c_empty[consumer()][buffer], c_cursor_.phase ^ 1);
    write_box(box, shared_.c[consumer()][buffer]);
    tell(&shared_.c_full[consumer()][buffer]);
    ++c_cursor_;
  }

  __device__ void write_box(int box, Element* to) {
    const int across = box % Config::kBoxesAcross;
    const uint32_t* values = rounded_[box / Config::kBoxesAcross] + across * 16;
    const int lane = thread() % 32;
    // stmatrix: lanes 0-7 address rows 0-7, lanes 8-15 rows 8-15, lanes 16-31 the next 8 columns.
    const int row = thread() / 32 * 16 + lane % 16;
    const int width = Config::is_narrow(across * Config::kBox) ? Config::kNarrowBox : Config::kBox;
    const int cols = kStaging == Staging::kImage ? pending_cols_ - across * Config::kBox : width;
#pragma unroll
    for (int pair = 0; pair < Config::kBox / 16; ++pair) {
      if (pair * 16 >= width) continue;
      const uint32_t* v = values + pair * 4;
      store_matrices(shared_address(to) + staged_at(row, pair * 2 + lane / 16, cols), v[0], v[1], v[2], v[3]);
    }
  }

  // Where 8 columns of a row of a box with `cols` columns go, in bytes.  A narrow box of an image leaves the end of
  // its buffer unused: what lies beyond its columns is thrown there.
  __device__ static uint32_t staged_at(int row, int chunk, int cols) {
    if (cols >= Config::kBox) return BoxImage::in_full_box(row, chunk);
    if (kStaging == Staging::kTensor) return in_narrow_tensor_box(row, chunk);
    return chunk * 8 < cols ? BoxImage::in_narrow_box(row, chunk, cols) : BoxImage::kUnusedChunk;
  }

  // TMA's swizzle of rows of 64 bytes: two rows share a number to swizzle with.
  __device__ static uint32_t in_narrow_tensor_box(int row, int chunk) {
    return row * 64 + (chunk ^ (row / 2 % 4)) * 16;
  }

  __device__ void tell(uint64_t* full) {
    shared_stores_before_tma();
    __syncwarp();
    if (thread() % 32 == 0) ptx::mbarrier_arrive(full);
  }

  GemmShared<Config, Element>& shared_;
  const int k_blocks_;
  Cursor<Config::kStages> cursor_;
  Cursor<Config::kStoreBuffers> c_cursor_;
  bool pending_ = false;
  int pending_cols_ = 0;
  uint32_t rounded_[Config::kSlabs][Config::kPartN / 4];
};

}  // namespace mk::sm90

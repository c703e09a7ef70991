// SPDX-License-Identifier: MIT
// target/sm90/gemm_engine.cuh — one tile of C = A·B on a Hopper SM, as jobs for the warps of a block.
//
//   job     who                        waits for                    tells
//   load    one thread                 empty[stage]                 full[stage], by TMA
//   maths   two consumer warpgroups    full[stage]                  empty[stage]
//   store   the same, after a tile     its own earlier TMA stores   nobody: the kernel's end
//
// The load job runs ahead of the maths by up to kStages blocks of k, over tile borders too.  Inside a
// tile one group of wgmmas is always in flight.  All jobs walk the operator's tiles in the same order.
//
// A load job whose rows will not come marks the tile at which it gave up in `void_from` and still
// passes one empty block of k per tile, so that the maths job reaches its end; such tiles are not
// stored.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "target/sm90/ptx.cuh"

namespace mk::sm90 {

struct GemmShape {
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 256;
  static constexpr int kTileK = 64;  // 128 bytes: one swizzled row
  static constexpr int kStages = 4;
  static constexpr int kConsumers = 2;  // warpgroups, 64 rows each
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kBoxCols = 64;  // columns of B and C per TMA box
  static constexpr int kBoxes = kTileN / kBoxCols;
  static constexpr int kStoreBuffers = 2;  // boxes of C per consumer on their way out
  static constexpr int kRowsPerConsumer = kTileM / kConsumers;

  // Of 65536 registers, 168 a thread at start: the loading warpgroup gives what the consumers take.
  static constexpr int kLoadRegisters = 40;
  static constexpr int kMathsRegisters = 232;
};

template <class Element>
struct GemmShared {
  using S = GemmShape;
  alignas(1024) Element a[S::kStages][S::kTileM * S::kTileK];
  alignas(1024) Element b[S::kStages][S::kBoxes][S::kTileK * S::kBoxCols];
  alignas(1024) Element c[S::kConsumers][S::kStoreBuffers][S::kRowsPerConsumer * S::kBoxCols];
  uint64_t full[S::kStages];
  uint64_t empty[S::kStages];
  int64_t void_from;  // count of tiles in this block before the first that is not computed
};

// Where a tile's operands and result lie, in elements.
struct TileCoords {
  int row = 0;  // in the shard
  int a_shard = 0;
  int c_shard = 0;
  int col = 0;
};

// A position in the ring of stages; only ++ moves it.
struct StageCursor {
  int stage = 0;
  uint32_t phase = 0;

  __device__ void operator++() {
    if (++stage == GemmShape::kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

template <class Element>
__device__ void prepare_gemm(GemmShared<Element>& shared) {
  for (int stage = 0; stage < GemmShape::kStages; ++stage) {
    ptx::mbarrier_init(&shared.full[stage], 1);
    ptx::mbarrier_init(&shared.empty[stage], GemmShape::kConsumers);
  }
  shared.void_from = INT64_MAX;
  barriers_before_use();
}

template <class Element>
class LoadJob {
 public:
  __device__ LoadJob(GemmShared<Element>& shared, const CUtensorMap* b, int64_t k)
      : shared_(shared), b_(b), k_blocks_(static_cast<int>((k + GemmShape::kTileK - 1) / GemmShape::kTileK)) {}

  __device__ void load(const CUtensorMap* a, const TileCoords& at) {
    using S = GemmShape;
    for (int block = 0; block < k_blocks_; ++block, ++cursor_) {
      const int stage = cursor_.stage;
      uint64_t* full = &shared_.full[stage];
      wait_phase(&shared_.empty[stage], cursor_.phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full, uint32_t{kStageBytes});
      const int32_t from_a[3] = {block * S::kTileK, at.row, at.a_shard};
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, shared_.a[stage], a, from_a, full);
      for (int box = 0; box < S::kBoxes; ++box) {
        const int32_t from_b[3] = {at.col + box * S::kBoxCols, block * S::kTileK, 0};
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, shared_.b[stage][box], b_, from_b, full);
      }
    }
    ++tiles_;
  }

  // The tile at hand and all after it have no rows.
  __device__ void pass_void() {
    if (shared_.void_from > tiles_) shared_.void_from = tiles_;
    wait_phase(&shared_.empty[cursor_.stage], cursor_.phase ^ 1);
    ptx::mbarrier_arrive(&shared_.full[cursor_.stage]);  // releases void_from
    ++cursor_;
    ++tiles_;
  }

 private:
  static constexpr uint32_t kStageBytes = sizeof(Element) * GemmShape::kTileK * (GemmShape::kTileM + GemmShape::kTileN);

  GemmShared<Element>& shared_;
  const CUtensorMap* b_;
  const int k_blocks_;
  StageCursor cursor_;
  int64_t tiles_ = 0;
};

template <class Element>
class MathsJob {
 public:
  // `consumer` is the warpgroup's number, `thread` the thread's in it.
  __device__ MathsJob(GemmShared<Element>& shared, int64_t k, int consumer, int thread)
      : shared_(shared),
        k_blocks_(static_cast<int>((k + GemmShape::kTileK - 1) / GemmShape::kTileK)),
        consumer_(consumer),
        thread_(thread) {}

  __device__ void multiply_and_store(const CUtensorMap* c, const TileCoords& at) {
    wait_phase(&shared_.full[cursor_.stage], cursor_.phase);
    const bool is_void = shared_.void_from <= tiles_++;
    if (is_void) {
      // No wgmma keeps the warps together here: all must have seen this phase before the stage is refilled.
      named_barrier(1 + consumer_, 128);
      release(cursor_.stage);
      ++cursor_;
      return;
    }
    float sums[128];
    multiply(sums);
    store(sums, c, at);
  }

  // Every store of this warpgroup has landed.
  __device__ void finish() {
    if (thread_ == 0) ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
  }

 private:
  using S = GemmShape;

  __device__ void release(int stage) {
    if (thread_ == 0) ptx::mbarrier_arrive(&shared_.empty[stage]);
  }

  __device__ void multiply(float (&sums)[128]) {
    int previous = -1;
    for (int block = 0; block < k_blocks_; ++block, ++cursor_) {
      const int stage = cursor_.stage;
      wait_phase(&shared_.full[stage], cursor_.phase);
      const uint32_t a = shared_address(shared_.a[stage]) + consumer_ * S::kRowsPerConsumer * 128;
      const uint32_t b = shared_address(shared_.b[stage]);
      wgmma_begin();
#pragma unroll
      for (int step = 0; step < S::kTileK / 16; ++step) {
        // A: rows of 128 bytes in groups of 8; 16 of k are 32 bytes on.  B: boxes of 64 columns, k by k.
        wgmma_64x256x16<Element>(sums, wgmma_operand(a + step * 32, 16, 1024),
                                 wgmma_operand(b + step * 2048, S::kTileK * 128, 1024), block > 0 || step > 0);
      }
      wgmma_commit();
      wgmma_wait<1>();  // the block before is done, its stage may be refilled
      if (previous >= 0) release(previous);
      previous = stage;
    }
    wgmma_wait<0>();
    wgmma_results(sums);
    release(previous);
  }

  __device__ void store(const float (&sums)[128], const CUtensorMap* c, const TileCoords& at) {
    const int barrier = 1 + consumer_;
    const int warp = thread_ / 32;
    const int lane = thread_ % 32;
    // stmatrix: lanes 0-7 address rows 0-7, lanes 8-15 rows 8-15, lanes 16-31 the next 8 columns.
    const int row = warp * 16 + lane % 16;
#pragma unroll
    for (int box = 0; box < S::kBoxes; ++box) {
      if (thread_ == 0) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<S::kStoreBuffers - 1>{});  // it was read
      named_barrier(barrier, 128);
      Element* out = shared_.c[consumer_][box % S::kStoreBuffers];
      const uint32_t row_address = shared_address(out) + row * 128;
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        const float* d = sums + box * 32 + pair * 8;
        const int chunk = pair * 2 + lane / 16;
        store_matrices(row_address + ((chunk ^ (row % 8)) * 16), pack(d[0], d[1]), pack(d[2], d[3]), pack(d[4], d[5]),
                       pack(d[6], d[7]));
      }
      shared_stores_before_tma();
      named_barrier(barrier, 128);
      if (thread_ == 0) {
        const int32_t to[3] = {at.col + box * S::kBoxCols, at.row + consumer_ * S::kRowsPerConsumer, at.c_shard};
        ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, c, to, out);
        ptx::cp_async_bulk_commit_group();
      }
    }
  }

  __device__ static uint32_t pack(float low, float high);

  GemmShared<Element>& shared_;
  const int k_blocks_;
  const int consumer_;
  const int thread_;
  StageCursor cursor_;
  int64_t tiles_ = 0;
};

template <>
__device__ inline uint32_t MathsJob<__nv_bfloat16>::pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

template <>
__device__ inline uint32_t MathsJob<__half>::pack(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

}  // namespace mk::sm90

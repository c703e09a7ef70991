// SPDX-License-Identifier: MIT
// target/sm90/gemm_shared.cuh — what the jobs of a block share while they compute tiles of C = A·B.
//
//   job     who                        waits for                        tells
//   load    a warp                     empty[stage]                     full[stage], by TMA
//   maths   two consumer warpgroups    full[stage]; c_empty[box]        empty[stage]; c_full[box]
//   store   one thread                 c_full[box]                      c_empty[box]; the operator's signals
//
// A warp beside them may be a worker that communicates (communication_block.cuh).  It has a buffer here and shares
// nothing else with the jobs.
//
// All jobs walk the operator's tiles in the same order.  The load job runs ahead of the maths by up to kStages blocks
// of k, over tile borders too; the maths job hands out a tile's boxes of C while it already multiplies the next tile.
// Blocks of a cluster free a stage together, because each of them fills part of the others' B.
//
// A load job whose rows will not come says so in `void_from` and goes on with whatever lies there, so that every job,
// and every block of the cluster, reaches its end.  Void tiles are neither stored nor signalled.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "target/sm90/bulk_copier.cuh"
#include "target/sm90/gemm_config.h"
#include "target/sm90/pipeline.cuh"
#include "target/sm90/ptx.cuh"

namespace mk::sm90 {

template <class Config, class Element>
struct GemmShared {
  using Inside = InsideBuffer<Config::kInsidePieceBytes>;
  static_assert(Config::kInsidePieceBytes == 0 || sizeof(Inside) <= Config::kInsideBytes);
  static_assert(registers_fit(Config::kJobRegisters, Config::kConsumers, Config::kMathsRegisters));

  alignas(1024) Element a[Config::kStages][Config::kTileM * Config::kTileK];
  alignas(1024) Element b[Config::kStages][Config::kStageN * Config::kTileK];
  alignas(1024) Element c[Config::kConsumers][Config::kStoreBuffers][Config::kBox * Config::kBox];
  uint64_t full[Config::kStages];
  uint64_t empty[Config::kStages];
  uint64_t c_full[Config::kConsumers][Config::kStoreBuffers];
  uint64_t c_empty[Config::kConsumers][Config::kStoreBuffers];
  uint64_t last_full[Config::kConsumers][Config::kBoxesPerPart];
  [[no_unique_address]] Inside inside;
  int64_t void_from;  // count of tiles in this block before the first that is not computed
};

// What a tile is a product of.  Every tile of a block may have its own; blocks of a cluster have the same B and as many
// blocks of k.
struct TileOperands {
  const CUtensorMap* a = nullptr;
  const CUtensorMap* b = nullptr;
  int k_blocks = 1;       // at least 1; see blocks_of_k
  bool is_gated = false;  // `b` is a gated map; only for a LoadJob that may gate
};

template <class Config>
__device__ int blocks_of_k(int64_t k) {
  return static_cast<int>((k + Config::kTileK - 1) / Config::kTileK);
}

// Where a block's tile has its operands and result, in elements.
struct TileCoords {
  int row = 0;  // in the shard
  int a_shard = 0;
  int c_shard = 0;
  int col = 0;
  int b_shard = 0;
};

// What the load job needs.  Its warp calls this, before begin_jobs.
template <class Config, class Element>
__device__ void prepare_loads(GemmShared<Config, Element>& shared) {
  prepare([&] {
    for (uint64_t& full : shared.full) ptx::mbarrier_init(&full, 1);
    for (uint64_t& empty : shared.empty) ptx::mbarrier_init(&empty, Config::kConsumers * Config::kCluster);
    shared.void_from = INT64_MAX;
  });
}

// What the maths and store jobs need between them.  Another warp calls this, before begin_jobs.
template <class Config, class Element>
__device__ void prepare_stores(GemmShared<Config, Element>& shared) {
  constexpr int kWarps = 4;  // of a consumer, each tells of a box
  prepare([&] {
    for (int consumer = 0; consumer < Config::kConsumers; ++consumer) {
      for (uint64_t& full : shared.c_full[consumer]) ptx::mbarrier_init(&full, kWarps);
      for (uint64_t& empty : shared.c_empty[consumer]) ptx::mbarrier_init(&empty, 1);
      for (uint64_t& full : shared.last_full[consumer]) ptx::mbarrier_init(&full, kWarps);
    }
  });
}

// Where a box of a consumer's last tile is staged; see kLastThroughA.
template <class Config, class Element>
__device__ Element* last_box(GemmShared<Config, Element>& shared, int consumer, int box) {
  constexpr int kBoxesPerStage = Config::kPartM / Config::kBox;
  Element* own_rows = shared.a[box / kBoxesPerStage] + consumer * Config::kPartM * Config::kTileK;
  return own_rows + box % kBoxesPerStage * Config::kBox * Config::kTileK;
}

}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// tests/cuda/chained_kernel.cuh — two products with SwiGLU between them in one launch, by the GEMM engine's jobs alone:
//
//   H = swiglu(A · B1)    B1 holds gate and up in turns (GatedColumns); H has half its columns
//   C = H · B2            a tile waits for the row block of H that it reads
//
// All blocks take tiles of H first, then of C.  A row block's counter says how many of its tiles of H are there.
#pragma once

#include "base/math.h"
#include "tests/cuda/engine_block.cuh"

namespace mk::sm90 {

struct ChainedParams {
  CUtensorMap a;
  CUtensorMap b1;
  CUtensorMap h_boxes;  // as it is stored
  CUtensorMap h;        // as it is loaded
  CUtensorMap b2;
  CUtensorMap c;
  uint64_t* counters;  // of row blocks of H, zero at the start
  uint64_t* gave_up;   // counts blocks
  uint64_t timeout_ns;
  int missing;  // tiles that are awaited of each row block but never come
  int m;
  int inner;  // columns of H
  int n;
  int k;
};

// Tiles of H and then those of C, row block by row block.
template <class Config>
struct ChainedTiles {
  int row_blocks;
  int across_h;
  int across_c;

  __device__ explicit ChainedTiles(const ChainedParams& p)
      : row_blocks(ceil_div(p.m, Config::kTileM)),
        across_h(ceil_div(2 * p.inner, Config::kTileN)),
        across_c(ceil_div(p.n, Config::kTileN)) {}

  __device__ int first_of_c() const { return row_blocks * across_h; }
  __device__ int all() const { return first_of_c() + row_blocks * across_c; }
  __device__ bool is_of_c(int tile) const { return tile >= first_of_c(); }
  __device__ int row_block(int tile) const {
    return is_of_c(tile) ? (tile - first_of_c()) / across_c : tile / across_h;
  }
  // The first column of the tile's sums.
  __device__ int col(int tile) const {
    return (is_of_c(tile) ? (tile - first_of_c()) % across_c : tile % across_h) * Config::kTileN;
  }
  __device__ int after(int tile) const { return (all() - 1 - tile) / static_cast<int>(gridDim.x); }
};

// A warp waits until the row block is there, for a while; then the copy engine may read it.  Pairs with the add_release
// of the store jobs.
__device__ bool wait_for_rows(const uint64_t* counter, uint64_t wanted, uint64_t timeout_ns) {
  bool is_there = false;
  if (is_one_lane()) {
    const uint64_t began = clock_ns();
    do {
      is_there = SystemAtomics::load_acquire(counter) >= wanted;
    } while (!is_there && clock_ns() - began < timeout_ns);
  }
  is_there = __any_sync(0xffffffffu, is_there) != 0;
  rows_before_async_reads();
  return is_there;
}

template <class Config, class Element, BOrder kOrder>
__global__ void __launch_bounds__(Config::kThreads, 1) chained_kernel(const __grid_constant__ ChainedParams p) {
  static_assert(Config::kCluster == 1);
  using Folded = ResultBoxes<Config, 2, 2>;
  using Whole = ResultBoxes<Config>;
  auto& shared = test::shared_of<Config, Element>();
  const ChainedTiles<Config> tiles(p);
  const int own = static_cast<int>(blockIdx.x);
  const int blocks = static_cast<int>(gridDim.x);

  const auto load = [&] {
    LoadJob<Config, Element, kOrder> job(shared);
    bool alive = true;
    for (int tile = own; tile < tiles.all(); tile += blocks) {
      const int row_block = tiles.row_block(tile);
      const TileCoords at{.row = row_block * Config::kTileM, .col = tiles.col(tile)};
      if (!tiles.is_of_c(tile)) {
        job.load({&p.a, &p.b1, blocks_of_k<Config>(p.k)}, at);
        continue;
      }
      if (alive && !wait_for_rows(&p.counters[row_block], tiles.across_h + p.missing, p.timeout_ns)) {
        alive = false;
        job.give_up();
        if (is_one_lane()) SystemAtomics::add_relaxed(p.gave_up, 1);
      }
      job.load({&p.h, &p.b2, blocks_of_k<Config>(p.inner)}, at);
    }
    job.finish();
  };

  const auto store = [&] {
    StoreJob<Config, Element> job(shared);
    for (int tile = own; tile < tiles.all(); tile += blocks) {
      const int row_block = tiles.row_block(tile);
      const bool is_of_c = tiles.is_of_c(tile);
      const CUtensorMap* const map = is_of_c ? &p.c : &p.h_boxes;
      const int first = is_of_c ? tiles.col(tile) : tiles.col(tile) / Folded::kFold;
      const auto send_box = [&](const void* box, int row, int col) {
        const int32_t to[3] = {first + col, row_block * Config::kTileM + row, 0};
        ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, map, to, box);
      };
      if (is_of_c) {
        job.template store_one<Whole>(tiles.after(tile), send_box);
      } else {
        job.template store_one<Folded>(tiles.after(tile), send_box);
        job.finish();
        SystemAtomics::add_release(&p.counters[row_block], 1);  // pairs with wait_for_rows
      }
    }
    job.finish_reads();
  };

  const auto multiply = [&] {
    int tile = own;
    MathsJob<Config, Element, kOrder, Staging::kTensor, Folded> first(shared);
    for (; tile < tiles.first_of_c(); tile += blocks) {
      first.multiply({.k_blocks = blocks_of_k<Config>(p.k),
                      .row = tiles.row_block(tile) * Config::kTileM,
                      .col = tiles.col(tile) / Folded::kFold},
                     SwiGlu{});
    }
    if (tile >= tiles.all()) {
      first.finish();
      return;
    }
    MathsJob<Config, Element, kOrder> second(first);
    for (; tile < tiles.all(); tile += blocks) {
      second.multiply({.k_blocks = blocks_of_k<Config>(p.inner),
                       .row = tiles.row_block(tile) * Config::kTileM,
                       .col = tiles.col(tile)},
                      Plain{});
    }
    second.finish();
  };
  test::run_jobs<Config, Element>(shared, load, store, multiply);
}

}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// bench/attention_backward_kernel.cuh — gradients of attention on one GPU by the engine's jobs alone: for its benchmark
// and its tests.
//
// In one launch: blocks of queries are noted; tiles of keys are claimed in their order, and visited by all blocks that
// see them; sums of blocks become gradients.  Additions to a block go in the order of tiles.
#pragma once

#include "base/cuda_api.h"
#include "base/math.h"
#include "target/sm90/attention_backward_add.cuh"
#include "target/sm90/attention_backward_load.cuh"
#include "target/sm90/attention_backward_rows.cuh"
#include "target/sm90/attention_backward_tell.cuh"

namespace mk::bench {

// All begin with zeros.
struct BackwardCounters {
  uint64_t claimed = 0;
  uint64_t noted = 0;  // blocks
};

template <class Config, class Element>
struct AttentionBackwardParams {
  CUtensorMap q;
  CUtensorMap g;
  CUtensorMap k;
  CUtensorMap v;
  const Element* o = nullptr;  // [batch, row, head, dim], as q, dq and the gradients of o
  const Element* do_rows = nullptr;
  const float* lse = nullptr;  // [batch, head, row]
  Element* dq = nullptr;
  sm90::KeyGradients<Element> gradients;
  sm90::RowNotes<Config>* notes = nullptr;  // of each block, [batch, head, block]
  float* sums = nullptr;                    // as many as notes
  uint64_t* turns = nullptr;                // of each block: how many additions there were; zeros at first
  BackwardCounters* counters = nullptr;
  sm90::AttentionMask mask;
  int batches = 1;
  int heads = 1;
  int kv_heads = 1;
  int heads_at_once = 1;  // of keys; divides batches · kv_heads
  int queries = 0;
  int keys = 0;
  int position = 0;  // of the first query
  float softmax_scale = 1;
  float score_scale = 1;  // times log2 e

  __host__ __device__ int blocks_of_head() const { return ceil_div(queries, Config::kQueries); }
  __host__ __device__ int num_blocks() const { return batches * heads * blocks_of_head(); }
  __host__ __device__ int tiles_of_head() const { return ceil_div(keys, Config::kKeys); }
  __host__ __device__ int num_tiles() const { return batches * kv_heads * tiles_of_head(); }
  __device__ int64_t row_of(int batch, int head, int row) const {
    return ((static_cast<int64_t>(batch) * queries + row) * heads + head) * Config::kHeadDim;
  }
  __device__ sm90::KeyTile tile(int number) const {
    const int of_group = heads_at_once * tiles_of_head();
    const int head = number / of_group * heads_at_once + number % heads_at_once;
    const int key = number % of_group / heads_at_once * Config::kKeys;
    return {&k, &v, head / kv_heads, head % kv_heads, key, min_of(Config::kKeys, keys - key), key};
  }
  // Tiles of a head that the block sees: the first, and how many.
  struct SeenTiles {
    int first;
    int count;
  };
  __device__ SeenTiles seen_tiles(int block) const {
    const int in_head = block % blocks_of_head();
    const int first_row = position + in_head * Config::kQueries;
    const int rows = min_of(Config::kQueries, queries - in_head * Config::kQueries);
    const int first = max_of(0, first_row - mask.left);
    const int end = min_of(keys, first_row + rows + mask.right);
    if (first >= end) return {0, 0};
    return {first / Config::kKeys, ceil_div(end, Config::kKeys) - first / Config::kKeys};
  }
};

// Polls with a deadline of two seconds.
__device__ inline bool wait_until(const uint64_t* word, uint64_t value) {
  const uint64_t end = sm90::clock_ns() + 2'000'000'000;
  while (sm90::SystemAtomics::load_acquire(word) < value) {
    if (sm90::clock_ns() > end) return false;
  }
  return true;
}

template <class Config, class Element>
struct TurnsInOrder {
  const AttentionBackwardParams<Config, Element>& p;

  __device__ bool wait(const sm90::BlockNote& note) const {
    return wait_until(p.turns + note.block, static_cast<uint64_t>(note.turn));
  }
  __device__ void done(const sm90::BlockNote& note) const { sm90::DeviceAtomics::add_release(p.turns + note.block, 1); }
};

// Nobody waits for gradients of keys.
struct NoTeller {
  __device__ void done(int64_t) const {}
  __device__ void passed(int64_t) const {}
};

// Calls visit(block) for the blocks of each warp of the consumers.
template <class Config, class Element, class Visit>
__device__ void for_own_blocks(const AttentionBackwardParams<Config, Element>& p, const Visit& visit) {
  constexpr int kWarps = 4 * Config::kConsumers;
  const int first = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32 - 4;
  for (int block = first; block < p.num_blocks(); block += static_cast<int>(gridDim.x) * kWarps) visit(block);
}

template <class Config, class Element>
__device__ void note_blocks(const AttentionBackwardParams<Config, Element>& p) {
  for_own_blocks(p, [&](int block) {
    const int head = block / p.blocks_of_head();
    const int row = block % p.blocks_of_head() * Config::kQueries;
    const int64_t first = p.row_of(head / p.heads, head % p.heads, row);
    const int64_t of_row = int64_t{p.heads} * Config::kHeadDim;
    sm90::note_rows<Config, Element>({p.o + first, of_row}, {p.do_rows + first, of_row},
                                     p.lse + static_cast<int64_t>(head) * p.queries + row, p.queries - row,
                                     p.notes[block]);
    __syncwarp();
    if (threadIdx.x % 32 == 0) sm90::SystemAtomics::add_release(&p.counters->noted, 1);
  });
}

template <class Config, class Element>
__device__ void store_blocks(const AttentionBackwardParams<Config, Element>& p) {
  for_own_blocks(p, [&](int block) {
    const int head = block / p.blocks_of_head();
    const int row = block % p.blocks_of_head() * Config::kQueries;
    const int64_t of_row = int64_t{p.heads} * Config::kHeadDim;
    const auto count = static_cast<uint64_t>(p.seen_tiles(block).count);
    wait_until(p.turns + block, count);
    Element* const to = p.dq + p.row_of(head / p.heads, head % p.heads, row);
    if (count > 0) {
      sm90::store_query_gradients<Config>(p.sums + static_cast<int64_t>(block) * Config::kBlockFloats, p.softmax_scale,
                                          to, of_row, p.queries - row);
      return;
    }
    for (int i = static_cast<int>(threadIdx.x) % 32; i < Config::kBlockFloats; i += 32) {
      if (row + i / Config::kHeadDim < p.queries) to[i / Config::kHeadDim * of_row + i % Config::kHeadDim] = Element(0);
    }
  });
}

template <class Config, class Element>
__device__ __forceinline__ void load_tiles(const AttentionBackwardParams<Config, Element>& p,
                                           sm90::AttentionBackwardShared<Config, Element>& shared) {
  sm90::AttentionBackwardLoadJob<Config, Element> job(shared);
  job.meet();
  wait_until(&p.counters->noted, static_cast<uint64_t>(p.num_blocks()));
  sm90::rows_before_async_reads();
  const int group = p.heads / p.kv_heads;
  for (;;) {
    unsigned long long number = 0;
    if (threadIdx.x == 0) number = atomicAdd(reinterpret_cast<unsigned long long*>(&p.counters->claimed), 1);
    number = __shfl_sync(0xffffffffu, number, 0);
    if (number >= static_cast<unsigned>(p.num_tiles())) break;
    const sm90::KeyTile tile = p.tile(static_cast<int>(number));
    const auto segment_of = [&](int) {
      const int head = tile.head * group;
      return sm90::QuerySegment{tile.batch, head,       0,
                                p.queries,  p.position, (tile.batch * p.heads + head) * p.blocks_of_head()};
    };
    const auto turn_of = [&](int block) {
      const auto seen = p.seen_tiles(block);
      return sm90::BlockTurn{tile.row / Config::kKeys - seen.first, seen.count};
    };
    job.load({&p.q, &p.g, p.notes}, {.tile = tile}, p.mask, group, p.blocks_of_head(), 1, segment_of, turn_of);
  }
  job.finish();
}

template <class Config, class Element>
__global__ void __launch_bounds__(Config::kThreads, 1)
    attention_backward_kernel(const __grid_constant__ AttentionBackwardParams<Config, Element> p) {
  auto& shared = *reinterpret_cast<sm90::AttentionBackwardShared<Config, Element>*>(sm90::block_memory());
  if (threadIdx.x >= 128) {
    sm90::begin_jobs<Config>();
    sm90::take_registers<Config::kMathsRegisters>();
    note_blocks(p);
    sm90::AttentionBackwardMathsJob<Config, Element>(shared, p.gradients, p.score_scale).run();
    store_blocks(p);
    return;
  }
  sm90::give_registers<Config::kJobRegisters>();
  if (threadIdx.x < 32) {
    load_tiles(p, shared);
  } else {
    sm90::begin_jobs<Config>();
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp == 2) {
      NoTeller teller;
      sm90::AttentionTellJob<Config, Element, NoTeller>(shared, teller).run();
    } else {
      TurnsInOrder<Config, Element> turns{p};
      sm90::AttentionAddJob<Config, Element, TurnsInOrder<Config, Element>>(shared, p.sums, turns, warp / 2).run();
    }
  }
}

}  // namespace mk::bench

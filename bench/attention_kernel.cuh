// SPDX-License-Identifier: MIT
// bench/attention_kernel.cuh — attention on one GPU by the engine's jobs alone: for its benchmark and its tests.
//
// Blocks take tiles of queries, the longest first, or claim them.  Keys may be cut into parts and passes: in each pass
// every tile is visited, against the parts of that pass; between passes its state is paused.  Tiles are claimed only
// if there is one pass, since a tile must come back to its block.
#pragma once

#include "base/cuda_api.h"
#include "base/math.h"
#include "target/sm90/attention_load.cuh"
#include "target/sm90/attention_maths.cuh"

namespace mk::bench {

struct AttentionPart {
  CUtensorMap k;
  CUtensorMap v;
  int row = 0;
  int keys = 0;
  int position = 0;
  uint64_t* landed = nullptr;  // counts visits whose loads are done; null, for all parts: nobody is told
};

constexpr int kMostParts = 4;

template <class Element>
struct AttentionParams {
  CUtensorMap q;
  AttentionPart parts[kMostParts];
  sm90::AttentionOutput<Element> output;
  sm90::AttentionMask mask;
  uint64_t* claimed = nullptr;  // zero at the start; null: tiles are not claimed
  int num_parts = 1;
  int parts_of_pass = 1;
  int missing_part = -1;  // one that never comes: its pass is the end
  int batches = 1;
  int heads = 1;
  int group = 1;          // heads of queries for a head of keys
  int heads_at_once = 1;  // whose keys and values stay in the L2 together; divides batches · heads
  int queries = 0;
  int position = 0;  // of the first query
  float softmax_scale = 1;
};

// All heads of a group of heads_at_once before the next group; in it, the last rows first: with a causal mask they
// have most keys.
template <class Config, class Element>
struct AttentionTiles {
  const AttentionParams<Element>& p;
  int along;

  __device__ explicit AttentionTiles(const AttentionParams<Element>& params)
      : p(params), along(ceil_div(params.queries, Config::kTileM)) {}

  __device__ int all() const { return along * p.batches * p.heads; }
  __device__ sm90::QueryTile tile(int index) const {
    const int of_group = along * p.heads_at_once;
    const int in_group = index % of_group;
    const int head = index / of_group * p.heads_at_once + in_group % p.heads_at_once;
    const int row = (along - 1 - in_group / p.heads_at_once) * Config::kTileM;
    return {head / p.heads, head % p.heads, row, min_of(Config::kTileM, p.queries - row), p.position + row};
  }
};

// Counts, for the parts of a pass, the visits that were read.
template <class Element>
struct AttentionParts {
  const AttentionParams<Element>& p;
  int first = 0;

  __device__ int count() const { return min_of(p.parts_of_pass, p.num_parts - first); }
  __device__ bool has(int part) const { return part >= first && part < first + count(); }
  __device__ void landed() const {
    if (!sm90::is_one_lane()) return;
    for (int part = first; part < first + count(); ++part) sm90::SystemAtomics::tell_relaxed(p.parts[part].landed, 1);
  }
};

template <class Config, class Element>
__global__ void __launch_bounds__(Config::kThreads, 1)
    attention_kernel(const __grid_constant__ AttentionParams<Element> p) {
  extern __shared__ std::byte dynamic[];
  auto& shared = *reinterpret_cast<sm90::AttentionShared<Config, Element>*>(sm90::aligned_to_atom(dynamic));
  if (threadIdx.x >= 128) {
    sm90::begin_jobs<Config>();
    sm90::take_registers<Config::kMathsRegisters>();
    sm90::AttentionMathsJob<Config, Element>(shared, p.output, p.softmax_scale).run();
    return;
  }
  sm90::give_registers<Config::kJobRegisters>();
  if (threadIdx.x >= 32) {
    sm90::begin_jobs<Config>();
    return;
  }
  AttentionParts<Element> parts{p};
  sm90::AttentionLoadJob<Config, Element, AttentionParts<Element>> job(shared, parts);
  job.meet();
  const AttentionTiles<Config, Element> tiles(p);
  const auto claim = [&](int before) {
    if (p.claimed == nullptr) return before + static_cast<int>(gridDim.x);
    unsigned long long next = 0;
    if (threadIdx.x == 0) next = atomicAdd(reinterpret_cast<unsigned long long*>(p.claimed), 1);
    return static_cast<int>(gridDim.x + __shfl_sync(0xffffffffu, next, 0));
  };
  for (int first = 0; first < p.num_parts; first += p.parts_of_pass) {
    job.settle();
    parts.first = first;
    if (parts.has(p.missing_part)) break;
    const bool is_last = first + p.parts_of_pass >= p.num_parts;
    for (int index = static_cast<int>(blockIdx.x); index < tiles.all(); index = claim(index)) {
      const sm90::QueryTile tile = tiles.tile(index);
      const auto segment_of = [&](int i) {
        const AttentionPart& part = p.parts[first + i];
        return sm90::KeySegment{&part.k, &part.v, tile.batch, tile.head / p.group, part.row, part.keys, part.position};
      };
      job.load(&p.q,
               {tile, first == 0 ? sm90::VisitBegin::kEmpty : sm90::VisitBegin::kResumed,
                is_last ? sm90::VisitEnd::kResult : sm90::VisitEnd::kPaused, index},
               p.mask, parts.count(), segment_of);
      if (p.parts[first].landed != nullptr) job.mark();
    }
  }
  job.finish();
}

}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// bench/attention_kernel.cuh — attention on one GPU by the engine's jobs alone: for its benchmark, its tests, and
// baselines.
//
// Blocks take tiles of queries, the longest first, or claim them.  Keys may be cut into parts and passes: in each pass
// every tile is visited, against the parts of that pass; between passes its state is paused.  Tiles are claimed only
// if there is one pass, since a tile must come back to its block.  Launches that follow each other may be passes, too.
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
  int first_batch = 0;         // in the maps
};

constexpr int kMostParts = 16;

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
  bool resumes = false;   // an earlier launch left the state
  bool pauses = false;    // for a later one
  int batches = 1;
  int heads = 1;
  int group = 1;          // heads of queries for a head of keys
  int heads_at_once = 1;  // whose keys and values stay in the L2 together; divides batches · heads
  int queries = 0;        // of a piece
  int pieces = 1;         // of the sequence, one or two; positions grow
  int position[2] = {};   // of the first query of each
  float softmax_scale = 1;
};

// All heads of a group of heads_at_once before the next group; in it, the last rows first: with a causal mask they
// have most keys.
template <class Config, class Element>
struct AttentionTiles {
  const AttentionParams<Element>& p;
  int of_piece;
  int along;

  __device__ explicit AttentionTiles(const AttentionParams<Element>& params)
      : p(params), of_piece(ceil_div(params.queries, Config::kTileM)), along(params.pieces * of_piece) {}

  __device__ int all() const { return along * p.batches * p.heads; }
  __device__ sm90::QueryTile tile(int index) const {
    const int of_group = along * p.heads_at_once;
    const int in_group = index % of_group;
    const int head = index / of_group * p.heads_at_once + in_group % p.heads_at_once;
    const int number = along - 1 - in_group / p.heads_at_once;
    const int piece = number / of_piece;
    const int row = number % of_piece * Config::kTileM;
    return {head / p.heads, head % p.heads, piece * p.queries + row, min_of(Config::kTileM, p.queries - row),
            p.position[piece] + row};
  }
};

// Counts, for the parts of a pass, the visits that were read.
template <class Element>
struct AttentionParts {
  const AttentionParams<Element>& p;
  int first = 0;

  __device__ int count() const { return min_of(p.parts_of_pass, p.num_parts - first); }
  __device__ bool has(int part) const { return part >= first && part < first + count(); }
  template <class SegmentOf>
  __device__ bool has_keys(const sm90::QueryTile& tile, const SegmentOf& segment_of) const {
    for (int i = 0; i < count(); ++i) {
      if (sm90::seen_keys(p.mask, tile, segment_of(i)).template blocks<1>() > 0) return true;
    }
    return false;
  }
  __device__ void landed() const {
    if (!sm90::is_one_lane()) return;
    for (int part = first; part < first + count(); ++part) sm90::SystemAtomics::tell_relaxed(p.parts[part].landed, 1);
  }
};

template <class Config, class Element>
__global__ void __launch_bounds__(Config::kThreads, 1)
    attention_kernel(const __grid_constant__ AttentionParams<Element> p) {
  auto& shared = *reinterpret_cast<sm90::AttentionShared<Config, Element>*>(sm90::block_memory());
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
    const bool is_resumed = first > 0 || p.resumes;
    const bool is_paused = first + p.parts_of_pass < p.num_parts || p.pauses;
    for (int index = static_cast<int>(blockIdx.x); index < tiles.all(); index = claim(index)) {
      const sm90::QueryTile tile = tiles.tile(index);
      const auto segment_of = [&](int i) {
        const AttentionPart& part = p.parts[first + i];
        return sm90::KeySegment{&part.k,   &part.v,      part.first_batch + tile.batch, tile.head / p.group, part.row,
                                part.keys, part.position};
      };
      if (p.resumes && is_paused && !parts.has_keys(tile, segment_of)) continue;
      job.load(&p.q,
               {tile, is_resumed ? sm90::VisitBegin::kResumed : sm90::VisitBegin::kEmpty,
                is_paused ? sm90::VisitEnd::kPaused : sm90::VisitEnd::kResult, index},
               p.mask, parts.count(), segment_of);
      if (p.parts[first].landed != nullptr) job.mark();
    }
  }
  job.finish();
}

}  // namespace mk::bench

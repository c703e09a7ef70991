// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_kernel.cuh — the persistent kernel of attention over many ranks.
//
// Compute blocks run the jobs of the attention engine (target/sm90/attention_shared.cuh); their load warp takes the
// steps of the protocol.  Other blocks communicate.  Tiles stay with their block, so state that a thread has written it
// alone reads again.
#pragma once

#include <algorithm>
#include <type_traits>

#include "base/cuda_api.h"
#include "ops/attention/ring_attention_protocol.h"
#include "ops/attention/ring_attention_sm90.h"
#include "target/sm90/attention_load.cuh"
#include "target/sm90/attention_maths.cuh"
#include "target/sm90/claiming_machine.cuh"
#include "target/sm90/communication_block.cuh"
#include "target/sm90/sm90_machine.cuh"
#include "target/sm90/tensor_map.h"
#include "target/sm90/with_config.cuh"

namespace mk::attention {

template <class Config, class Element>
constexpr size_t kBlockShared = sm90::kSharedFor<sm90::AttentionShared<Config, Element>, sm90::BulkBuffers>;

// Keys and values as TMA sees them: (column, row of a piece, head, part).  A part is a piece of a batch; in a window
// those of all slots follow each other, keys and values in turn.
struct KeyMaps {
  CUtensorMap k;
  CUtensorMap v;
};

template <class Element, class Pace>
struct Params {
  RankView view;
  Layout layout;
  CUtensorMap q;
  KeyMaps own;
  KeyMaps rail;
  KeyMaps local;
  sm90::AttentionOutput<Element> output;
  sm90::AttentionMask mask;
  float scale;
  [[no_unique_address]] typename Pace::Setting pace;
};

template <class Element, class Pace>
__device__ sm90::KeySegment key_segment(const Params<Element, Pace>& p, const QueryTile& tile, int step,
                                        const Segment& segment, int id) {
  const Layout& layout = p.layout;
  const KeyMaps& maps = step == 0 ? p.own : layout.is_rail_step(step) ? p.rail : p.local;
  const int slot = step == 0 ? 0 : layout.slot_of(step);
  const int part = (slot * 2 * layout.batch + tile.batch) * layout.pieces() + segment.piece;
  return {&maps.k,
          &maps.v,
          part,
          tile.head / (layout.heads / layout.kv_heads),
          static_cast<int>(segment.rows.first - segment.piece * layout.piece_rows()),
          static_cast<int>(segment.rows.count),
          static_cast<int>(segment.position),
          id};
}

template <class Element, class Pace>
__device__ sm90::AttentionVisit visit_of(const Params<Element, Pace>& p, const QueryTile& tile, int step) {
  return {{tile.batch, tile.head, static_cast<int>(tile.rows.first), static_cast<int>(tile.rows.count),
           static_cast<int>(tile.position)},
          step > 0 ? sm90::VisitBegin::kResumed : sm90::VisitBegin::kEmpty,
          p.layout.pauses(p.view.rank, tile, step) ? sm90::VisitEnd::kPaused : sm90::VisitEnd::kResult,
          static_cast<int>(tile.number)};
}

// The load job asks here for keys of other ranks (attention_load.cuh).  A segment's id is its step.
template <class M>
struct ArrivingKeys {
  M& machine;
  const Layout& layout;
  const QueryTile* tile = nullptr;  // in hand
  const Segment* segment = nullptr;
  Segment seen[2] = {};  // by piece: rows that are known to be here, of seen_step and seen_batch
  int seen_step = -1;
  int seen_batch = 0;
  int given = 0;       // segments of other ranks' keys that the load job has got,
  int num_read = 0;    // and those that it has read
  int last_step = 0;   // all visits before this one have been given,
  int last_given = 0;  // with so many segments
  int ended = 0;       // steps whose end the protocol was told of

  __device__ bool is_here(int step) const {
    const Range& rows = seen[segment->piece].rows;
    return step == seen_step && tile->batch == seen_batch && segment->rows.first >= rows.first &&
           segment->rows.first + segment->rows.count <= rows.first + rows.count;
  }
  __device__ bool wait(int step) {
    end_steps();  // whoever sends these keys may need to know of it
    if (!before_keys(machine, layout, *tile, step, *segment)) return false;
    if (step != seen_step || tile->batch != seen_batch) seen[0].rows = seen[1].rows = {};
    seen[segment->piece] = *segment;
    seen_step = step;
    seen_batch = tile->batch;
    return true;
  }
  __device__ void landed(int) { ++num_read; }

  // All visits of a step have been given.
  __device__ void leave(int step) {
    last_step = step + 1;
    last_given = given;
  }
  // Ends the steps that were left, if all that the block reads at them has been read.  Called once a visit, and not
  // where something lands: there are many such places, which must be short.
  __device__ void end_steps() {
    if (num_read < last_given) return;
    MK_LOOP
    for (; ended < last_step; ++ended) after_step(machine, layout, ended);
  }
};

template <class Config, class Element, class Pace>
__device__ __forceinline__ void load_visits(const Params<Element, Pace>& p, const Post& post, int worker,
                                            sm90::AttentionShared<Config, Element>& shared) {
  using M = sm90::ClaimingMachine;
  const Layout& layout = p.layout;
  M machine(p.view, post, worker, /*part=*/1);
  ArrivingKeys<M> keys{machine, layout};
  sm90::AttentionLoadJob<Config, Element, ArrivingKeys<M>> job(shared, keys);
  if (sm90::is_one_lane()) {
    for (const CUtensorMap* map : {&p.q, &p.own.k, &p.own.v}) sm90::prefetch_tensor_map(map);
  }
  before_steps(machine, layout);
  job.meet();
  QueryTile tile;
  Segment segments[2];
  MK_LOOP
  for (int step = 0; step < layout.num_steps(); ++step) {
    const int source = source_at(layout.world, p.view.rank, step);
    Visits<M> visits(machine, layout, post, step);
    bool has_more = true;
    MK_LOOP
    while (has_more) {
      has_more = visits.next(tile);
      if (has_more) {
        int count = 0;
        MK_LOOP
        for (int piece = 0; piece < layout.pieces(); ++piece) {
          segments[count] = layout.segment(tile, source, piece);
          count += segments[count].rows.count > 0;
        }
        keys.tile = &tile;
        if (step > 0) keys.given += count;
        job.load(&p.q, visit_of(p, tile, step), p.mask, count, [&](int i) {
          keys.segment = &segments[i];
          return key_segment(p, tile, step, segments[i], step == 0 ? sm90::KeySegment::kIsHere : step);
        });
      }
      if (!has_more) keys.leave(step);
      keys.end_steps();
    }
  }
  job.finish();
  keys.end_steps();
  machine.close();
}

template <class Config, class Element, class Pace>
__device__ __forceinline__ void compute_block(const Params<Element, Pace>& p, const Post& post, int worker,
                                              std::byte* memory) {
  auto& shared = *reinterpret_cast<sm90::AttentionShared<Config, Element>*>(memory);
  if (threadIdx.x >= 128) {
    sm90::begin_jobs<Config>();
    sm90::take_registers<Config::kMathsRegisters>();
    sm90::AttentionMathsJob<Config, Element>(shared, p.output, p.scale).run();
  } else {
    sm90::give_registers<Config::kJobRegisters>();
    if (threadIdx.x >= 32) {
      sm90::begin_jobs<Config>();
    } else {
      load_visits<Config>(p, post, worker, shared);
    }
  }
}

template <class Config, class Element, class Pace>
__global__ void __launch_bounds__(Config::kThreads, 1)
    ring_attention_kernel(const __grid_constant__ Params<Element, Pace> p) {
  extern __shared__ std::byte dynamic[];
  std::byte* const memory = sm90::aligned_to_atom(dynamic);
  const Roster& roles = p.layout.roles;
  const int compute = static_cast<int>(blockIdx.x) - sm90::communication_blocks(roles);
  if (compute >= 0) {
    compute_block<Config>(p, Post{Layout::kCompute, compute, roles.num_compute()}, roles.compute_worker(compute),
                          memory);
  } else {
    sm90::run_communication_block<Pace>(
        p.view, roles, p.pace, memory,
        [&p](auto& machine, const Post& post, const sm90::BulkPieces&) { communicate(machine, p.layout, post); });
  }
  __syncthreads();
  sm90::leave_block(p.view, roles);
}

// ---- launching ---------------------------------------------------------------------------------------

// `parts` of them, keys or values, from `data` on.
inline CUtensorMap key_map(const Layout& layout, const void* data, DType dtype, int64_t parts, int box_rows) {
  const int64_t row = int64_t{layout.kv_heads} * layout.dim;
  const sm90::TensorView view{data,
                              dtype,
                              4,
                              {layout.dim, layout.piece_rows(), layout.kv_heads, parts},
                              {1, row, layout.dim, layout.piece_rows() * row}};
  return sm90::make_tensor_map(view, {{64, box_rows, 1, 1}});
}

inline KeyMaps key_maps(const Layout& layout, const void* k, const void* v, DType dtype, int slots, int box_rows) {
  const int64_t half = int64_t{layout.batch} * layout.pieces();
  const int64_t parts = (2 * slots - 1) * half;  // behind the last keys there are only values, and the other way round
  return {key_map(layout, k, dtype, parts, box_rows), key_map(layout, v, dtype, parts, box_rows)};
}

template <class Config, class Element, class Pace>
Params<Element, Pace> make_params(const Layout& layout, const RankView& view, const runtime::Plan& plan,
                                  const Operands& of, DType dtype, const typename Pace::Setting& pace) {
  Params<Element, Pace> params{.view = view, .layout = layout};
  const int64_t row = int64_t{layout.heads} * layout.dim;
  const sm90::TensorView q{
      of.q, dtype, 4, {layout.dim, layout.rows, layout.heads, layout.batch}, {1, row, layout.dim, layout.rows * row}};
  params.q = sm90::make_tensor_map(q, {{64, Config::kTileM, 1, 1}});
  params.own = key_maps(layout, of.k, of.v, dtype, 1, Config::kTileN);
  const auto of_window = [&](uint32_t window, int slots) {
    if (slots == 0) return params.own;  // not used
    std::byte* const first = plan.window(window, view.rank);
    return key_maps(layout, first, first + layout.half_bytes(), dtype, slots, Config::kTileN);
  };
  params.rail = of_window(kRailWindow, layout.rail_slots);
  params.local = of_window(kLocalWindow, layout.local_slots);
  params.output = {static_cast<Element*>(of.o), layout.rows * row, row,     layout.dim, of.lse,
                   layout.heads * layout.rows,  layout.rows,       of.sink, nullptr};
  if (layout.world.size() > 1) {
    params.output.states = reinterpret_cast<float4*>(plan.window(kStateWindow, view.rank));
  }
  constexpr int64_t kFar = sm90::AttentionMask::kFar;
  if (layout.mask.kind == MaskKind::kCausal) {
    params.mask = {static_cast<int>(std::min(kFar, layout.mask.window - 1)), 0};
  }
  params.scale = of.scale;
  params.pace = pace;
  return params;
}

// Calls body<Config>() for the tile of a head dimension.
template <class Body>
void with_tile(int dim, Body&& body) {
  if (dim == 64) return body.template operator()<TileOf<64>>();
  if (dim == 128) return body.template operator()<TileOf<128>>();
  return body.template operator()<TileOf<256>>();
}

// Queues the launch of one rank.
template <class Element, class Pace>
void launch_attention(const Layout& layout, const RankView& view, const runtime::Plan& plan, const Operands& operands,
                      DType dtype, const typename Pace::Setting& pace, cudaStream_t stream) {
  with_tile(layout.dim, [&]<class Config>() {
    static_assert(Config::kTileM == kGpuTileRows && kBlockShared<Config, Element> <= sm90::kSharedLimit);
    static_assert(sm90::AttentionState<Config>::kBytes ==
                  sizeof(float) * Config::kTileM * (Config::kHeadDim + Layout::kWordsOfRow));
    const auto params = make_params<Config, Element, Pace>(layout, view, plan, operands, dtype, pace);
    cudaLaunchConfig_t config{};
    config.gridDim = sm90::num_blocks(layout.roles);
    config.blockDim = Config::kThreads;
    config.dynamicSmemBytes = kBlockShared<Config, Element>;
    config.stream = stream;
    check_cuda(cudaLaunchKernelEx(&config, ring_attention_kernel<Config, Element, Pace>, params),
               "launch ring_attention");
  });
}

template <DType kDType>
void RingAttentionLauncher<kDType>::load() {
  using Element = sm90::ElementOf<kDType>;
  for (const int dim : {64, 128, 256}) {
    with_tile(dim, [&]<class Config>() {
      load_kernel(reinterpret_cast<const void*>(ring_attention_kernel<Config, Element, sm90::NoPace>),
                  kBlockShared<Config, Element>);
    });
  }
}

template <DType kDType>
void RingAttentionLauncher<kDType>::launch(const Layout& layout, const RankView& view, const runtime::Plan& plan,
                                           const Operands& operands, Stream stream) {
  launch_attention<sm90::ElementOf<kDType>, sm90::NoPace>(layout, view, plan, operands, kDType, {},
                                                          static_cast<cudaStream_t>(stream));
}

}  // namespace mk::attention

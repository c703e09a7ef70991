// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_kernel.cuh — the persistent kernel of attention over many ranks.
//
// Compute blocks run the jobs of the attention engine (target/sm90/attention_shared.cuh), and one that takes the steps
// of the protocol (ring_attention_walk.cuh).  Other blocks communicate.  Tiles stay with their block, so state that a
// thread has written it alone reads again.
#pragma once

#include <algorithm>
#include <type_traits>

#include "base/cuda_api.h"
#include "ops/attention/ring_attention_params.cuh"
#include "ops/attention/ring_attention_protocol.h"
#include "ops/attention/ring_attention_sm90.h"
#include "ops/attention/ring_attention_walk.cuh"
#include "target/sm90/attention_load.cuh"
#include "target/sm90/attention_maths.cuh"
#include "target/sm90/communication_block.cuh"
#include "target/sm90/sm90_machine.cuh"
#include "target/sm90/tensor_map.h"
#include "target/sm90/with_config.cuh"

namespace mk::attention {

template <class Config, class Element>
constexpr size_t kBlockShared = sm90::kSharedFor<BlockShared<Config, Element>, sm90::BulkBuffers>;

// A signal that the walk job passed: the load job adds to it when it has read what came before.
struct LateSignal {
  uint64_t* word = nullptr;
  uint64_t amount = 0;

  __device__ void landed() const {
    if (sm90::is_one_lane()) {
      sm90::SystemAtomics::fence_release();
      sm90::SystemAtomics::tell_relaxed(word, amount);
    }
    __syncwarp();
  }
};

template <class Config, class Element, class Pace>
__device__ __forceinline__ void load_visits(const Params<Element, Pace>& p, BlockShared<Config, Element>& shared) {
  LateSignal late;
  sm90::AttentionLoadJob<Config, Element, LateSignal> job(shared.attention, late);
  if (sm90::is_one_lane()) {
    for (const CUtensorMap* map : {&p.q, &p.own.k, &p.own.v}) sm90::prefetch_tensor_map(map);
  }
  job.meet();
  WalkedTaker taker(shared.walked);
  const auto take = [&] {
    if (__any_sync(0xffffffffu, !taker.can_look())) job.settle();  // others may wait for it before there is a next one
    return taker.look();
  };
  MK_LOOP
  while (const WalkedVisit* const next = take()) {
    if (next->told != nullptr) {
      job.settle();
      late = {next->told, next->amount};
      job.mark();
    } else {
      if (next->visit.begin == sm90::VisitBegin::kResumed) sm90::rows_before_async_reads();
      job.load(&p.q, next->visit, p.mask, next->num_segments, [&](int i) { return next->segments[i]; });
    }
    taker.free();
  }
  job.finish();
}

template <class Config, class Element, class Pace>
__device__ __forceinline__ void compute_block(const Params<Element, Pace>& p, const Post& post, int worker,
                                              std::byte* memory) {
  auto& shared = *reinterpret_cast<BlockShared<Config, Element>*>(memory);
  if (threadIdx.x >= 128) {
    sm90::begin_jobs<Config>();
    sm90::take_registers<Config::kMathsRegisters>();
    sm90::AttentionMathsJob<Config, Element>(shared.attention, p.output, p.scale).run();
    return;
  }
  sm90::give_registers<Config::kJobRegisters>();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp == 0) {
    load_visits(p, shared);
  } else if (warp == 1) {
    walk_visits<Config>(p, post, worker, shared.walked);
  } else {
    sm90::begin_jobs<Config>();
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

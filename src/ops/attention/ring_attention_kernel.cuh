// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_kernel.cuh — the persistent kernel of attention over many ranks.
//
// Compute blocks run the jobs of the attention engine (target/sm90/attention_shared.cuh), and one that takes the steps
// of the protocol (ring_attention_walk.cuh).  Other blocks communicate.  Tiles stay with their block, so state that a
// thread has written it alone reads again.
#pragma once

#include "base/cuda_api.h"
#include "ops/attention/ring_attention_maps.cuh"
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
  std::byte* const memory = sm90::block_memory();
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

template <class Config, class Element, class Pace>
Params<Element, Pace> make_params(const Layout& layout, const RankView& view, const runtime::Plan& plan,
                                  const Operands& of, DType dtype, const typename Pace::Setting& pace) {
  Params<Element, Pace> params{.view = view, .layout = layout};
  params.q = rows_map(layout, layout.heads, of.q, dtype, Config::kTileM);
  const KeyMapsOfRank keys = key_maps_of(layout, view, plan, of.k, of.v, dtype, Config::kTileN);
  params.own = keys.own;
  params.rail = keys.rail;
  params.local = keys.local;
  const HeadStrides& o = of.o.strides;
  params.output = {of.o.at<Element>(0, 0, 0),  o.batch,     o.row,   o.head, of.lse,
                   layout.heads * layout.rows, layout.rows, of.sink, nullptr};
  if (layout.world.size() > 1) {
    params.output.states = reinterpret_cast<float4*>(plan.window(kStateWindow, view.rank));
  }
  params.mask = engine_mask(layout);
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

// Before the first launch on a device.
template <class Config, class Element, class Pace>
void load_attention() {
  load_kernel(reinterpret_cast<const void*>(ring_attention_kernel<Config, Element, Pace>),
              kBlockShared<Config, Element>);
}

// Queues the launch of one rank.
template <class Config, class Element, class Pace>
void launch_attention(const Layout& layout, const RankView& view, const runtime::Plan& plan, const Operands& operands,
                      DType dtype, const typename Pace::Setting& pace, cudaStream_t stream) {
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
}

template <DType kDType>
void RingAttentionLauncher<kDType>::load() {
  for (const int dim : {64, 128, 256}) {
    with_tile(dim, [&]<class Config>() { load_attention<Config, sm90::ElementOf<kDType>, sm90::NoPace>(); });
  }
}

template <DType kDType>
void RingAttentionLauncher<kDType>::launch(const Layout& layout, const RankView& view, const runtime::Plan& plan,
                                           const Operands& operands, Stream stream) {
  with_tile(layout.dim, [&]<class Config>() {
    launch_attention<Config, sm90::ElementOf<kDType>, sm90::NoPace>(layout, view, plan, operands, kDType, {},
                                                                    static_cast<cudaStream_t>(stream));
  });
}

}  // namespace mk::attention

// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward_kernel.cuh — the persistent kernel of attention's gradients over many ranks.
//
// Compute blocks run the jobs of the backward engine with the parts of compute_gradients between them
// (ring_attention_backward_jobs.cuh).  Warps of other blocks communicate and collect.
#pragma once

#include <algorithm>

#include "base/cuda_api.h"
#include "ops/attention/ring_attention_backward_jobs.cuh"
#include "ops/attention/ring_attention_backward_sm90.h"
#include "ops/attention/ring_attention_backward_walk.cuh"
#include "ops/attention/ring_attention_collect_body.cuh"
#include "ops/attention/ring_attention_maps.cuh"
#include "target/sm90/communication_block.cuh"
#include "target/sm90/with_config.cuh"

namespace mk::attention {

template <class Config, class Element>
constexpr size_t kBackwardShared = sm90::kSharedFor<BackwardBlockShared<Config, Element>, sm90::BulkBuffers>;

template <class Config, class Element, class Pace>
__device__ __forceinline__ void compute_block(const BackwardParams<Element, Pace>& p, const Post& post, int worker,
                                              std::byte* memory) {
  auto& shared = *reinterpret_cast<BackwardBlockShared<Config, Element>*>(memory);
  if (threadIdx.x >= 128) return compute_with_keys(p, shared);
  sm90::give_registers<Config::kJobRegisters>();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp == 0) {
    load_keys(p, shared);
  } else if (warp == 1) {
    add_queries(p, post, worker, shared, 0);
  } else if (warp == 2) {
    walk_keys(p, post, worker, shared);
  } else {
    add_queries(p, post, worker, shared, 1);
  }
}

// A type of its own for each Config: where kernels share the function that is made of it, ptxas 13.0 makes integers of
// the numbers that the second kernel adds (UBLKRED.ADD.U64).
template <class Config, class Element, class Pace>
__device__ auto communicating(const BackwardParams<Element, Pace>& p) {
  return [&p](auto& machine, const Post& post, const sm90::BulkPieces&) {
    if (post.role == BackwardLayout::kCollect) {
      CollectBody body(machine, p);
      collect(machine, p.layout, post, body);
    } else {
      communicate(machine, p.layout, post);
    }
  };
}

template <class Config, class Element, class Pace>
__global__ void __launch_bounds__(Config::kThreads, 1)
    ring_attention_backward_kernel(const __grid_constant__ BackwardParams<Element, Pace> p) {
  std::byte* const memory = sm90::block_memory();
  const Roster& roles = p.layout.roles;
  const int compute = static_cast<int>(blockIdx.x) - sm90::communication_blocks(roles);
  if (compute >= 0) {
    compute_block<Config>(p, Post{BackwardLayout::kCompute, compute, roles.num_compute()},
                          roles.compute_worker(compute), memory);
  } else {
    sm90::run_communication_block<Pace>(p.view, roles, p.pace, memory, communicating<Config>(p));
  }
  __syncthreads();
  sm90::leave_block(p.view, roles);
}

// ---- launching ---------------------------------------------------------------------------------------

template <class Config, class Element, class Pace>
BackwardParams<Element, Pace> make_backward_params(const BackwardLayout& layout, const RankView& view,
                                                   const runtime::Plan& plan, const BackwardOperands& of, DType dtype,
                                                   const typename Pace::Setting& pace) {
  BackwardParams<Element, Pace> params{.view = view, .layout = layout};
  params.q = rows_map(layout, layout.heads, of.q, dtype, Config::kQueries);
  params.g = rows_map(layout, layout.heads, of.dout, dtype, Config::kQueries);
  const KeyMapsOfRank keys = key_maps_of(layout, view, plan, of.k, of.v, dtype, Config::kKeys);
  params.own = keys.own;
  params.rail = keys.rail;
  params.local = keys.local;
  params.o = of.o;
  params.dout = of.dout;
  params.lse = of.lse;
  params.sink = of.sink;
  params.dq = of.dq;
  params.dsink = of.dsink;
  const auto gradients_of = [](const HeadView& to) -> sm90::HeadGradients<Element> {
    return {to.at<Element>(0, 0, 0), to.strides.batch, to.strides.row, to.strides.head};
  };
  params.gradients = {gradients_of(of.dk), gradients_of(of.dv)};
  params.mask = engine_mask(layout);
  params.scale = of.scale;
  params.score_scale = of.scale * sm90::kLog2E;
  params.pace = pace;
  return params;
}

// Calls body<Config>() for the tile of a head dimension.
template <class Body>
void with_backward_tile(int dim, Body&& body) {
  if (dim == 64) return body.template operator()<sm90::AttentionBackwardConfig<64>>();
  if (dim == 128) return body.template operator()<sm90::AttentionBackwardConfig<128>>();
  return body.template operator()<sm90::AttentionBackwardConfig<256>>();
}

// Queues the launch of one rank.
template <class Element, class Pace>
void launch_gradients(const BackwardLayout& layout, const RankView& view, const runtime::Plan& plan,
                      const BackwardOperands& operands, DType dtype, const typename Pace::Setting& pace,
                      cudaStream_t stream) {
  with_backward_tile(layout.dim, [&]<class Config>() {
    static_assert(kBackwardShared<Config, Element> <= sm90::kSharedLimit);
    static_assert(sizeof(sm90::RowNotes<Config>) == 8 * Config::kQueries);  // BackwardLayout::notes_bytes
    const auto params = make_backward_params<Config, Element, Pace>(layout, view, plan, operands, dtype, pace);
    cudaLaunchConfig_t config{};
    config.gridDim = sm90::num_blocks(layout.roles);
    config.blockDim = Config::kThreads;
    config.dynamicSmemBytes = kBackwardShared<Config, Element>;
    config.stream = stream;
    check_cuda(cudaLaunchKernelEx(&config, ring_attention_backward_kernel<Config, Element, Pace>, params),
               "launch ring_attention_backward");
  });
}

template <DType kDType>
void RingAttentionBackwardLauncher<kDType>::load() {
  using Element = sm90::ElementOf<kDType>;
  for (const int dim : {64, 128, 256}) {
    with_backward_tile(dim, [&]<class Config>() {
      load_kernel(reinterpret_cast<const void*>(ring_attention_backward_kernel<Config, Element, sm90::NoPace>),
                  kBackwardShared<Config, Element>);
    });
  }
}

template <DType kDType>
void RingAttentionBackwardLauncher<kDType>::launch(const BackwardLayout& layout, const RankView& view,
                                                   const runtime::Plan& plan, const BackwardOperands& operands,
                                                   Stream stream) {
  launch_gradients<sm90::ElementOf<kDType>, sm90::NoPace>(layout, view, plan, operands, kDType, {},
                                                          static_cast<cudaStream_t>(stream));
}

}  // namespace mk::attention

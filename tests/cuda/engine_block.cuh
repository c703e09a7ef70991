// SPDX-License-Identifier: MIT
// tests/cuda/engine_block.cuh — a block that is nothing but the jobs of the GEMM engine, for a test's own kernel.
#pragma once

#include "base/cuda_api.h"
#include "target/sm90/gemm_load.cuh"
#include "target/sm90/gemm_maths.cuh"
#include "target/sm90/gemm_store.cuh"
#include "target/sm90/pipeline.cuh"

namespace mk::test {

// Every thread of a block calls this; each job walks the same tiles.  load() is called by a warp, which makes a LoadJob
// first of all; store() by a thread, multiply() by the consumers.
template <class Config, class Element, class Load, class Store, class Multiply>
__device__ __forceinline__ void run_jobs(sm90::GemmShared<Config, Element>& shared, Load&& load, Store&& store,
                                         Multiply&& multiply) {
  if (threadIdx.x < 128) {
    sm90::give_registers<Config::kJobRegisters>();
    if (threadIdx.x < 32) {
      load();
    } else {
      if (threadIdx.x < 64) sm90::prepare_stores(shared);
      sm90::begin_jobs<Config>();
      if (threadIdx.x < 64 && sm90::is_one_lane()) store();
    }
  } else {
    sm90::begin_jobs<Config>();
    sm90::take_registers<Config::kMathsRegisters>();
    multiply();
  }
}

template <class Config, class Element>
__device__ sm90::GemmShared<Config, Element>& shared_of() {
  return *reinterpret_cast<sm90::GemmShared<Config, Element>*>(sm90::block_memory());
}

template <class Config, class Element, class Params>
void launch_jobs(void (*kernel)(Params), const Params& params, int blocks) {
  constexpr size_t kSharedBytes = sm90::kSharedFor<sm90::GemmShared<Config, Element>>;
  static_assert(kSharedBytes <= sm90::kSharedLimit);
  load_kernel(reinterpret_cast<const void*>(kernel), kSharedBytes);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {Config::kCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = Config::kThreads;
  config.dynamicSmemBytes = kSharedBytes;
  config.attrs = &cluster;
  config.numAttrs = Config::kCluster > 1 ? 1 : 0;
  check_cuda(cudaLaunchKernelEx(&config, kernel, params), "launch a test's kernel");
}

}  // namespace mk::test

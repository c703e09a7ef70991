// SPDX-License-Identifier: MIT
// bench/paced_launch.cuh — the definition of launch_paced; each source includes a protocol first.
#pragma once

#include "bench/paced_kernels.h"
#include "bench/paced_link.cuh"
#include "ops/gemm/gemm_kernel.cuh"
#include "runtime/kernel_registry.h"

namespace mk::bench {

template <class Layout>
void load_paced() {
  gemm::load_gemm<__nv_bfloat16, BOrder::kKN, Layout, PacedLink>();
}

template <class Layout>
void launch_paced(runtime::WorldState& world, const runtime::Plan& plan, int rank, const gemm::GemmOperands& operands,
                  const RankPace& pace) {
  const auto stream = static_cast<cudaStream_t>(world.device().stream(rank));
  sm90::with_tile<typename Layout::Configs>(gemm::gemm_tile_of(plan.layout<Layout>()), [&]<class Config>() {
    gemm::launch_gemm<Config, __nv_bfloat16, BOrder::kKN, Layout, PacedLink>(plan, rank, operands, pace, stream);
  });
}

}  // namespace mk::bench

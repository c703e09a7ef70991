// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_sm90.cu — the kernels of AllGather+GEMM: every tile, element type and order of B.
#include "ops/ag_gemm/ag_gemm_kernel.cuh"
#include "ops/dense/sm90_launch.h"
#include "target/sm90/with_config.cuh"

namespace mk::ag_gemm_op {

void launch_sm90(runtime::WorldState& world, const runtime::Plan& plan, int rank, const AgGemmArgs& args) {
  const cudaStream_t stream = dense::stream_of(world.device(), rank, args.stream);
  sm90::with_tile<sm90::GemmConfigs>(gemm_tile_of(plan.layout<Layout>()), [&]<class Config>() {
    sm90::with_types(args.a.dtype, args.b_order, [&]<class Element, BOrder kOrder>() {
      launch_ag_gemm<Config, Element, kOrder, sm90::NoPace>(plan, rank, args, {}, stream);
    });
  });
}

}  // namespace mk::ag_gemm_op

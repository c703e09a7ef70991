// SPDX-License-Identifier: MIT
// ops/gemm_rs/gemm_rs_sm90.cu — GEMM+ReduceScatter as one persistent kernel.
#include "ops/dense/sm90_launch.h"
#include "ops/dense/sum_kernel.cuh"
#include "ops/gemm_rs/gemm_rs_kernel.cuh"
#include "ops/gemm_rs/gemm_rs_targets.h"
#include "target/sm90/with_config.cuh"

namespace mk::gemm_rs_op {

void launch_sm90(runtime::WorldState& world, const runtime::Plan& plan, int rank, const GemmArgs& args) {
  const cudaStream_t stream = dense::stream_of(world.device(), rank, args.stream);
  sm90::with_tile<sm90::SoloConfigs>(dense::gemm_tile_of(plan.layout<Layout>().image()), [&]<class Config>() {
    sm90::with_types(args.a.dtype, args.b_order, [&]<class Element, BOrder kOrder>() {
      dense::launch_sum<Config, Element, kOrder, GemmRsOp, sm90::NoPace>(plan, rank, args, {}, stream);
    });
  });
}

}  // namespace mk::gemm_rs_op

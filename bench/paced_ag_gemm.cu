// SPDX-License-Identifier: MIT
// bench/paced_ag_gemm.cu — the kernels of AllGather+GEMM with links slowed down; bf16, B as [K,N].
#include "bench/paced_kernels.h"
#include "bench/paced_link.cuh"
#include "ops/ag_gemm/ag_gemm_kernel.cuh"
#include "ops/dense/sm90_launch.h"
#include "runtime/kernel_registry.h"

namespace mk::bench {
namespace {

const runtime::KernelLoader loader(ag_gemm_op::load_ag_gemm<__nv_bfloat16, BOrder::kKN, PacedLink>);

}  // namespace

void launch_paced_ag_gemm(runtime::WorldState& world, const runtime::Plan& plan, int rank, const AgGemmArgs& args,
                          const RankPace& pace) {
  const cudaStream_t stream = dense::stream_of(world.device(), rank, args.stream);
  const sm90::GemmTile tile = ag_gemm_op::gemm_tile_of(plan.layout<ag_gemm_op::Layout>());
  sm90::with_tile<sm90::GemmConfigs>(tile, [&]<class Config>() {
    ag_gemm_op::launch_ag_gemm<Config, __nv_bfloat16, BOrder::kKN, PacedLink>(plan, rank, args, pace, stream);
  });
}

}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// bench/paced_moe.cu — the kernels of MoE dispatch+GEMM with links slowed down.
#include "bench/paced_link.cuh"
#include "bench/paced_moe.h"
#include "ops/moe/moe_kernel.cuh"
#include "ops/moe/moe_plan_spec.h"
#include "runtime/kernel_registry.h"

namespace mk::bench {

static const runtime::KernelLoader loader(moe::load_moe<__nv_bfloat16, BOrder::kKN, PacedLink>);

void launch_paced(runtime::WorldState& world, const runtime::Plan& plan, int rank, const MoeDispatchGemmArgs& args,
                  const RankPace& pace) {
  RankView view = plan.view(rank);
  moe::set_inputs(view, args.x, args.topk_idx, args.topk_weight);
  moe::launch_moe<__nv_bfloat16, BOrder::kKN, PacedLink>(plan.layout<moe::Layout>(), view, plan, args, pace,
                                                         static_cast<cudaStream_t>(world.device().stream(rank)));
}

}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// bench/paced_moe_layer.cu — the kernels of the MoE layer with links slowed down.
#include "bench/paced_link.cuh"
#include "bench/paced_moe.h"
#include "ops/moe/moe_layer_kernel.cuh"
#include "ops/moe/moe_plan_spec.h"
#include "runtime/kernel_registry.h"

namespace mk::bench {

static const runtime::KernelLoader loader(moe::load_layer<__nv_bfloat16, PacedLink>);

void launch_paced(runtime::WorldState& world, const runtime::Plan& plan, int rank, const MoeLayerArgs& args,
                  const RankPace& pace) {
  RankView view = plan.view(rank);
  moe::set_inputs(view, args.x, args.topk_idx, args.topk_weight);
  moe::launch_layer<__nv_bfloat16, PacedLink>(plan.layout<moe::LayerLayout>(), view, plan, args, pace,
                                              static_cast<cudaStream_t>(world.device().stream(rank)));
}

}  // namespace mk::bench

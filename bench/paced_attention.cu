// SPDX-License-Identifier: MIT
// bench/paced_attention.cu — the kernel of ring attention with links slowed down.
#include "bench/attention_case.h"
#include "bench/paced_attention.h"
#include "bench/paced_link.cuh"
#include "ops/attention/ring_attention_kernel.cuh"
#include "ops/attention/ring_attention_targets.h"
#include "runtime/kernel_registry.h"

namespace mk::bench {

using Config = attention::TileOf<kAttentionDim>;

static const runtime::KernelLoader loader(attention::load_attention<Config, __nv_bfloat16, PacedLink>);

void launch_paced(runtime::WorldState& world, const runtime::Plan& plan, int rank, const attention::Problem& problem,
                  const RingAttentionArgs& args, const RankPace& pace) {
  attention::launch_attention<Config, __nv_bfloat16, PacedLink>(
      attention::layout_for<attention::KeptLayout>(plan, args).on_device(), attention::view_of(plan, rank, args), plan,
      attention::operands_of(problem, args), DType::kBf16, pace,
      static_cast<cudaStream_t>(world.device().stream(rank)));
}

}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// bench/paced_sums.cu — the kernels that sum over ranks with links slowed down; bf16, B as [K,N].
#include "bench/paced_kernels.h"
#include "bench/paced_link.cuh"
#include "ops/dense/sum_kernel.cuh"
#include "ops/gemm_ar/gemm_ar_one_shot_protocol.h"
#include "ops/gemm_ar/gemm_ar_protocol.h"
#include "ops/gemm_rs/gemm_rs_protocol.h"
#include "runtime/kernel_registry.h"

namespace mk::bench {
namespace {

using Element = __nv_bfloat16;

template <class... Layouts>
void load() {
  (dense::load_sum<Element, BOrder::kKN, Layouts, PacedLink>(), ...);
}
const runtime::KernelLoader loader(load<gemm_rs_op::Layout, gemm_ar_op::OneShotLayout, gemm_ar_op::TwoShotLayout>);

template <class Layout>
void launch_sum(runtime::WorldState& world, const runtime::Plan& plan, int rank, const GemmArgs& args,
                const RankPace& pace) {
  const cudaStream_t stream = dense::stream_of(world.device(), rank, args.stream);
  const dense::TileImage& image = plan.layout<Layout>().image();
  sm90::with_tile<sm90::SoloConfigs>(dense::gemm_tile_of(image), [&]<class Config>() {
    dense::launch_sum<Config, Element, BOrder::kKN, Layout, PacedLink>(plan, rank, args, pace, stream);
  });
}

}  // namespace

void launch_paced_gemm_rs(runtime::WorldState& world, const runtime::Plan& plan, int rank, const GemmArgs& args,
                          const RankPace& pace) {
  launch_sum<gemm_rs_op::Layout>(world, plan, rank, args, pace);
}

void launch_paced_gemm_ar(runtime::WorldState& world, const runtime::Plan& plan, AllReducePath path, int rank,
                          const GemmArgs& args, const RankPace& pace) {
  if (path == AllReducePath::kOneShot) {
    launch_sum<gemm_ar_op::OneShotLayout>(world, plan, rank, args, pace);
  } else {
    launch_sum<gemm_ar_op::TwoShotLayout>(world, plan, rank, args, pace);
  }
}

}  // namespace mk::bench

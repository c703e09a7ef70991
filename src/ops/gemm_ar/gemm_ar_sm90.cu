// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_sm90.cu — GEMM+AllReduce as one persistent kernel, a kernel for each path.
#include "ops/dense/sm90_launch.h"
#include "ops/dense/sum_kernel.cuh"
#include "ops/gemm_ar/gemm_ar_kernel.cuh"
#include "ops/gemm_ar/gemm_ar_targets.h"
#include "target/sm90/with_config.cuh"

namespace mk::gemm_ar_op {
namespace {

template <class Op>
void launch(const runtime::Plan& plan, int rank, const GemmArgs& args, cudaStream_t stream) {
  const dense::TileImage& image = plan.layout<typename Op::Layout>().image();
  sm90::with_tile<sm90::SoloConfigs>(dense::gemm_tile_of(image), [&]<class Config>() {
    sm90::with_types(args.a.dtype, args.b_order, [&]<class Element, BOrder kOrder>() {
      dense::launch_sum<Config, Element, kOrder, Op, sm90::NoPace>(plan, rank, args, {}, stream);
    });
  });
}

}  // namespace

void launch_sm90(runtime::WorldState& world, const runtime::Plan& plan, AllReducePath path, int rank,
                 const GemmArgs& args) {
  const cudaStream_t stream = dense::stream_of(world.device(), rank, args.stream);
  if (path == AllReducePath::kOneShot) {
    launch<OneShotOp>(plan, rank, args, stream);
  } else {
    launch<TwoShotOp>(plan, rank, args, stream);
  }
}

}  // namespace mk::gemm_ar_op

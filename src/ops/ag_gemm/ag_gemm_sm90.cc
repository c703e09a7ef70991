// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_sm90.cc — AllGather+GEMM on a GPU: which kernel is launched.
#include "ops/ag_gemm/ag_gemm_sm90.h"

#include "ops/ag_gemm/ag_gemm_targets.h"
#include "ops/dense/sm90_launch.h"

namespace mk::ag_gemm_op {

void launch_sm90(runtime::WorldState& world, const runtime::Plan& plan, int rank, const AgGemmArgs& args) {
  const cudaStream_t stream = dense::stream_of(world.device(), rank, args.stream);
  dense::with_types(args.a.dtype, args.b_order,
                    [&]<DType kDType, BOrder kOrder>() { Launcher<kDType, kOrder>::launch(plan, rank, args, stream); });
}

}  // namespace mk::ag_gemm_op

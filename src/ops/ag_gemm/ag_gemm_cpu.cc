// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_cpu.cc — AllGather+GEMM on threads.
#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "ops/ag_gemm/ag_gemm_targets.h"
#include "ops/dense/gemm_cpu.h"

namespace mk::ag_gemm_op {

void launch_cpu(runtime::WorldState& world, const runtime::Plan& plan, int rank, const AgGemmArgs& args) {
  dense::launch_cpu<Layout>(world, plan, rank, args.a,
                            {args.b.data, args.b_order, args.c.data, args.bias.data, args.activation});
}

}  // namespace mk::ag_gemm_op

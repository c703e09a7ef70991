// SPDX-License-Identifier: MIT
// ops/gemm_rs/gemm_rs_cpu.cc — GEMM+ReduceScatter on threads.
#include "ops/dense/gemm_cpu.h"
#include "ops/gemm_rs/gemm_rs_protocol.h"
#include "ops/gemm_rs/gemm_rs_targets.h"

namespace mk::gemm_rs_op {

void launch_cpu(runtime::WorldState& world, const runtime::Plan& plan, int rank, const GemmArgs& args) {
  dense::launch_cpu<Layout>(world, plan, rank, args);
}

}  // namespace mk::gemm_rs_op

// SPDX-License-Identifier: MIT
// ops/gemm_rs/gemm_rs_sm90.cc — GEMM+ReduceScatter on a GPU: which kernel is launched.
#include "ops/dense/sm90_launch.h"
#include "ops/gemm_rs/gemm_rs_targets.h"

namespace mk::gemm_rs_op {

void launch_sm90(runtime::WorldState& world, const runtime::Plan& plan, int rank, const GemmArgs& args) {
  dense::launch_sum_on_gpu<Layout>(world, plan, rank, args);
}

}  // namespace mk::gemm_rs_op

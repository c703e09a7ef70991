// SPDX-License-Identifier: MIT
// bench/fused.cc — see fused.h.
#include "bench/fused.h"

#include "bench/baseline.h"
#include "ops/ag_gemm/ag_gemm_targets.h"

namespace mk::bench {
namespace {

void launch_ag_gemm(const FusedRun& run) {
  const ag_gemm_op::Problem problem{run.shape.world, run.shape.m, run.shape.n, run.shape.k, run.shape.dtype};
  ag_gemm_op::check_problem(problem, DeviceKind::kCuda);
  const runtime::Plan& plan = ag_gemm_op::plan_for(run.world, problem, run.split);
  for (int rank = 0; rank < run.shape.world.size(); ++rank) {
    const RankTensors& own = run.tensors[rank];
    ag_gemm_op::launch_rank(run.world, plan, rank, {own.a, own.b, own.c});
  }
}

constexpr FusedOperator kOperators[] = {
    {OpKind::kAgGemm, launch_ag_gemm, nullptr, check_ag_gemm},
    {OpKind::kGemmRs, nullptr, nullptr, nullptr},
    {OpKind::kGemmAr, nullptr, nullptr, nullptr},
};

}  // namespace

const FusedOperator& fused_operator(OpKind op) {
  for (const FusedOperator& one : kOperators) {
    if (one.op == op) return one;
  }
  return kOperators[0];
}

}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// tools/op_gemm_ar.cc — runs GEMM+AllReduce and checks every element of every launch on every rank.
#include "mkernel/gemm_ar.h"
#include "operators.h"
#include "ops/gemm_ar/gemm_ar_targets.h"
#include "sum_runner.h"

namespace mk::tools {
namespace {

int64_t workspace_bytes(const World& world, const Row& row) {
  return gemm_ar_workspace_bytes(world, row.m, row.n, row.k, row.dtype);
}

const runtime::Plan& plan(runtime::WorldState& world, const gemm::Problem& problem, const Split& split) {
  return gemm_ar_op::plan_for(world, problem, gemm_ar_op::path_for(problem, AllReducePath::kAuto), split);
}

void launch(World& world, std::span<const GemmArgs> args, const Split& split) { gemm_ar(world, args, {split}); }

constexpr SumOperator kGemmAr{"gemm_ar", Output::kAll, workspace_bytes, plan, launch};

}  // namespace

Row run_gemm_ar(World& world, const RunRequest& request) { return run_sum(kGemmAr, world, request); }

}  // namespace mk::tools

// SPDX-License-Identifier: MIT
// tools/op_gemm_rs.cc — runs GEMM+ReduceScatter and checks every element of every launch on every rank.
#include "mkernel/gemm_rs.h"
#include "operators.h"
#include "ops/gemm_rs/gemm_rs_targets.h"
#include "sum_runner.h"

namespace mk::tools {
namespace {

int64_t workspace_bytes(const World& world, const Row& row) {
  return gemm_rs_workspace_bytes(world, row.m, row.n, row.k, row.dtype);
}

const runtime::Plan& plan(runtime::WorldState& world, const gemm::Problem& problem, const Split& split) {
  return gemm_rs_op::plan_for(world, problem, split);
}

void launch(World& world, std::span<const GemmArgs> args, const Split& split) { gemm_rs(world, args, {split}); }

constexpr SumOperator kGemmRs{"gemm_rs", Output::kShard, workspace_bytes, plan, launch};

}  // namespace

Row run_gemm_rs(World& world, const RunRequest& request) { return run_sum(kGemmRs, world, request); }

}  // namespace mk::tools

// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_targets.h — the plan and the launch of one rank, for the public call, tools and tests.
#pragma once

#include "ops/ag_gemm/ag_gemm_problem.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"

namespace mk::ag_gemm_op {

// Plans and launches some of the ranks: what ag_gemm does for all.
runtime::Plan& plan_for(runtime::WorldState& world, const Problem& problem, const AgGemmOptions& options);
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const AgGemmArgs& args);

}  // namespace mk::ag_gemm_op

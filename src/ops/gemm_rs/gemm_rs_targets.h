// SPDX-License-Identifier: MIT
// ops/gemm_rs/gemm_rs_targets.h — the plan and the launch of one rank, for the public call, tools and tests.
#pragma once

#include "ops/gemm_rs/gemm_rs_problem.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"

namespace mk::gemm_rs_op {

// Plans and launches some of the ranks: what gemm_rs does for all.
runtime::Plan& plan_for(runtime::WorldState& world, const Problem& problem, const Split& split);
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const GemmArgs& args);

}  // namespace mk::gemm_rs_op

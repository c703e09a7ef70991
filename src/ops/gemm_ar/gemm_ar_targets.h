// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_targets.h — the plan and the launch of one rank, for the public call, tools and tests.
//
// A path is kOneShot or kTwoShot here, and a plan belongs to one of them.
#pragma once

#include "ops/gemm_ar/gemm_ar_problem.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"

namespace mk::gemm_ar_op {

// Plans and launches some of the ranks: what gemm_ar does for all.
runtime::Plan& plan_for(runtime::WorldState& world, const Problem& problem, AllReducePath path, const Split& split);
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, AllReducePath path, int rank,
                 const GemmArgs& args);

}  // namespace mk::gemm_ar_op

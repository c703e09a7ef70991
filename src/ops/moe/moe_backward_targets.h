// SPDX-License-Identifier: MIT
// ops/moe/moe_backward_targets.h — layouts, the plan and the launch of one rank of the backward pass, for the public
// call, tools and tests.
#pragma once

#include "mkernel/moe_layer_backward.h"
#include "ops/moe/moe_backward_layout.h"
#include "ops/moe/moe_layer_targets.h"

namespace mk::moe {

BackwardLayout make_backward_layout(const LayerProblem& problem, const LayerCut& cut, const Roster& roles);

// Plans and launches some of the ranks: what moe_layer_backward does for all.
runtime::Plan& backward_plan_for(runtime::WorldState& world, const LayerProblem& problem, const Split& split);
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const MoeLayerBackwardArgs& args);

}  // namespace mk::moe

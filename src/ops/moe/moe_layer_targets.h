// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_targets.h — layouts, the plan and the launch of one rank of a layer, for the public call and tests.
#pragma once

#include "mkernel/moe_layer.h"
#include "ops/moe/moe_layer_layout.h"
#include "ops/moe/moe_layer_problem.h"
#include "ops/moe/moe_targets.h"

namespace mk::moe {

// How a rank's work is cut.
struct LayerCut : Cut {
  int act_tile_n = 64;
  int group_tiles = 8;
};

// On a GPU a tile of the first GEMM makes as many columns as it has.
LayerCut layer_cut_on(DeviceKind device, const Cut& dispatch, const Roster& roles);

LayerLayout make_layer_layout(const LayerProblem& problem, const LayerCut& cut, const Roster& roles);

// Plans and launches some of the ranks: what moe_layer does for all.
runtime::Plan& plan_for(runtime::WorldState& world, const LayerProblem& problem, const Split& split);
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const MoeLayerArgs& args);

}  // namespace mk::moe

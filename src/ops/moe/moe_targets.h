// SPDX-License-Identifier: MIT
// ops/moe/moe_targets.h — layouts, the plan and the launch of one rank, for the public call, tools and tests.
#pragma once

#include "ops/moe/moe_layout.h"
#include "ops/moe/moe_problem.h"
#include "ops/split.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"

namespace mk::moe {

// How a rank's work is cut.
struct Cut {
  int tile_m = 16;
  int tile_n = 64;
  int phase_tokens = 8;
  int slice_tokens = 32;
  int early_eighths = 8;
  int chunk_rows = 16;
  int bundle_rows = 8;
};

// Whether workers that send also sum results for other nodes, as in a layer.
enum class Sums { kNo, kYes };
// The roles of a rank, by the caller's split or chosen.
Roster choose_roles(const char* op, const WorldShape& world, const Split& asked, const Seats& seats,
                    Sums sums = Sums::kYes);

Cut cut_on(DeviceKind device, const Problem& problem, const Roster& roles);
Layout make_layout(const Problem& problem, const Cut& cut, const Roster& roles);

// Plans and launches some of the ranks: what moe_dispatch_gemm does for all.
runtime::Plan& plan_for(runtime::WorldState& world, const Problem& problem, const Split& split);
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const MoeDispatchGemmArgs& args);

}  // namespace mk::moe

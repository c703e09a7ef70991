// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward_targets.h — the plan and the launch of one rank, for the public call, tools and
// tests.
#pragma once

#include "mkernel/ring_attention_backward.h"
#include "ops/attention/ring_attention_backward_layout.h"
#include "ops/split.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"

namespace mk::attention {

// The roles of a rank, by the caller's split or chosen.
Roster choose_backward_roles(const WorldShape& world, const Split& asked, const Seats& seats);
BackwardCut backward_cut_on(DeviceKind device, const Problem& problem, const Seats& seats);

// Plans and launches some of the ranks: what ring_attention_backward does for all.
runtime::Plan& backward_plan_for(runtime::WorldState& world, const Problem& problem, const Split& split);
void launch_backward_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const Problem& problem,
                          const RingAttentionBackwardArgs& args);

}  // namespace mk::attention

// SPDX-License-Identifier: MIT
// bench/paced_attention.h — the launch of one rank of ring attention with its links paced, on the rank's own stream.
//
// It is for bf16 and heads of kAttentionDim elements.
#pragma once

#include "bench/pace.h"
#include "ops/attention/ring_attention_problem.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"

namespace mk::bench {

void launch_paced(runtime::WorldState& world, const runtime::Plan& plan, int rank, const attention::Problem& problem,
                  const RingAttentionArgs& args, const RankPace& pace);

}  // namespace mk::bench

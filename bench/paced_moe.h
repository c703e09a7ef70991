// SPDX-License-Identifier: MIT
// bench/paced_moe.h — launches of one rank of a mixture of experts with its links paced, on the rank's own stream.
//
// All are bf16; w of dispatch+GEMM lies as [K,N].
#pragma once

#include "bench/pace.h"
#include "mkernel/moe.h"
#include "mkernel/moe_layer.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"

namespace mk::bench {

void launch_paced(runtime::WorldState& world, const runtime::Plan& plan, int rank, const MoeDispatchGemmArgs& args,
                  const RankPace& pace);
void launch_paced(runtime::WorldState& world, const runtime::Plan& plan, int rank, const MoeLayerArgs& args,
                  const RankPace& pace);

}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// bench/paced_kernels.h — launches of one rank with its links paced; the library itself has no such kernels.
//
// All are bf16 with B as [K,N].
#pragma once

#include "bench/pace.h"
#include "ops/gemm/gemm_operands.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"

namespace mk::bench {

// Defined for the Layout of every operator, on the rank's own stream.
template <class Layout>
void launch_paced(runtime::WorldState& world, const runtime::Plan& plan, int rank, const gemm::GemmOperands& operands,
                  const RankPace& pace);

}  // namespace mk::bench

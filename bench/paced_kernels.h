// SPDX-License-Identifier: MIT
// bench/paced_kernels.h — launches of one rank with its links paced; the library itself has no such kernels.
//
// All are bf16 with B as [K,N].
#pragma once

#include "bench/pace.h"
#include "mkernel/ag_gemm.h"
#include "mkernel/gemm_ar.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"

namespace mk::bench {

void launch_paced_ag_gemm(runtime::WorldState& world, const runtime::Plan& plan, int rank, const AgGemmArgs& args,
                          const RankPace& pace);
void launch_paced_gemm_rs(runtime::WorldState& world, const runtime::Plan& plan, int rank, const GemmArgs& args,
                          const RankPace& pace);
void launch_paced_gemm_ar(runtime::WorldState& world, const runtime::Plan& plan, AllReducePath path, int rank,
                          const GemmArgs& args, const RankPace& pace);

}  // namespace mk::bench

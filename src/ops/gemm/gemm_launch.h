// SPDX-License-Identifier: MIT
// ops/gemm/gemm_launch.h — queues a rank's launch of a GEMM operator, on a GPU or on CPU threads.
//
// An operator's source includes its protocol before it calls launch_rank: the CPU's launch is made there.
#pragma once

#include "ops/gemm/gemm_cpu.h"
#include "ops/gemm/gemm_operands.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"

namespace mk::gemm {

// Defined for every Layout in ops/sm90_launches.cc or, without a CUDA compiler, in ops/sm90_absent.cc.
template <class Layout>
void launch_gpu(runtime::WorldState& world, const runtime::Plan& plan, int rank, const GemmOperands& operands,
                Stream stream);

template <class Layout, class Args>
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const Args& args) {
  if (world.device().kind() == DeviceKind::kCuda) {
    launch_gpu<Layout>(world, plan, rank, operands_of(args), args.stream);
  } else {
    launch_cpu<Layout>(world, plan, rank, operands_of(args));
  }
}

}  // namespace mk::gemm

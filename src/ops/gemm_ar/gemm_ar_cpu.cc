// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_cpu.cc — GEMM+AllReduce on threads.
#include "ops/dense/gemm_cpu.h"
#include "ops/gemm_ar/gemm_ar_one_shot_protocol.h"
#include "ops/gemm_ar/gemm_ar_protocol.h"
#include "ops/gemm_ar/gemm_ar_targets.h"

namespace mk::gemm_ar_op {

void launch_cpu(runtime::WorldState& world, const runtime::Plan& plan, AllReducePath path, int rank,
                const GemmArgs& args) {
  if (path == AllReducePath::kOneShot) {
    dense::launch_cpu<OneShotLayout>(world, plan, rank, args);
  } else {
    dense::launch_cpu<TwoShotLayout>(world, plan, rank, args);
  }
}

}  // namespace mk::gemm_ar_op

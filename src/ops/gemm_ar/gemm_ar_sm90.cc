// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_sm90.cc — GEMM+AllReduce on a GPU: which kernel is launched.
#include "ops/dense/sm90_launch.h"
#include "ops/gemm_ar/gemm_ar_targets.h"

namespace mk::gemm_ar_op {

void launch_sm90(runtime::WorldState& world, const runtime::Plan& plan, AllReducePath path, int rank,
                 const GemmArgs& args) {
  if (path == AllReducePath::kOneShot) {
    dense::launch_sum_on_gpu<OneShotLayout>(world, plan, rank, args);
  } else {
    dense::launch_sum_on_gpu<TwoShotLayout>(world, plan, rank, args);
  }
}

}  // namespace mk::gemm_ar_op

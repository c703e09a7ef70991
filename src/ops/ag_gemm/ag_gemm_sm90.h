// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_sm90.h — the launcher of AllGather+GEMM's kernels (see ops/dense/sm90_launch.h).
#pragma once

#include <cuda_runtime.h>

#include "mkernel/ag_gemm.h"
#include "runtime/plan.h"

namespace mk::ag_gemm_op {

// Defined in ag_gemm_kernel.cuh.
template <DType kDType, BOrder kOrder>
struct Launcher {
  static void load();  // before the first launch on a device
  static void launch(const runtime::Plan& plan, int rank, const AgGemmArgs& args, cudaStream_t stream);
};

}  // namespace mk::ag_gemm_op

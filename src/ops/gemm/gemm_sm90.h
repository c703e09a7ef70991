// SPDX-License-Identifier: MIT
// ops/gemm/gemm_sm90.h — from a launch's types to its kernels, which are compiled apart.
//
// A GemmLauncher is declared for host code and defined in gemm_kernel.cuh.  Each Layout, element type and order of B is
// instantiated in a source of its own, which cmake/cuda.cmake writes, and loaded before the first launch
// (runtime/kernel_registry.h).
#pragma once

#include <cuda_runtime.h>

#include "ops/gemm/gemm_operands.h"
#include "runtime/plan.h"

namespace mk::gemm {

template <class Layout, DType kDType, BOrder kOrder>
struct GemmLauncher {
  static void load();  // before the first launch on a device
  static void launch(const runtime::Plan& plan, int rank, const GemmOperands& operands, cudaStream_t stream);
};

// Calls body.operator()<dtype, order>().
template <class Body>
void with_types(DType dtype, BOrder order, Body&& body) {
  const auto with_order = [&]<DType kDType>() {
    if (order == BOrder::kKN) {
      body.template operator()<kDType, BOrder::kKN>();
    } else {
      body.template operator()<kDType, BOrder::kNK>();
    }
  };
  if (dtype == DType::kBf16) {
    with_order.template operator()<DType::kBf16>();
  } else {
    with_order.template operator()<DType::kFp16>();
  }
}

}  // namespace mk::gemm

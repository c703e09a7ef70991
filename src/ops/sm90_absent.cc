// SPDX-License-Identifier: MIT
// ops/sm90_absent.cc — compiled in place of the operators' kernels when there is no CUDA compiler.
//
// No World on a GPU can exist then, so these are never reached; they complete the link.
#include "mkernel/error.h"
#include "ops/ag_gemm/ag_gemm_targets.h"
#include "ops/gemm_ar/gemm_ar_targets.h"
#include "ops/gemm_rs/gemm_rs_targets.h"
#include "runtime/device.h"

namespace mk::ag_gemm_op {

void launch_sm90(runtime::WorldState&, const runtime::Plan&, int, const AgGemmArgs&) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

}  // namespace mk::ag_gemm_op

namespace mk::gemm_rs_op {

void launch_sm90(runtime::WorldState&, const runtime::Plan&, int, const GemmArgs&) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

}  // namespace mk::gemm_rs_op

namespace mk::gemm_ar_op {

void launch_sm90(runtime::WorldState&, const runtime::Plan&, AllReducePath, int, const GemmArgs&) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

}  // namespace mk::gemm_ar_op

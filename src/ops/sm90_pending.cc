// SPDX-License-Identifier: MIT
// ops/sm90_pending.cc — stands in for kernels that are not there yet: the public calls refuse before they launch.
#include "mkernel/error.h"
#include "ops/gemm_ar/gemm_ar_targets.h"
#include "ops/gemm_rs/gemm_rs_targets.h"

namespace mk::gemm_rs_op {

void check_target(DeviceKind device) {
  if (device == DeviceKind::kCuda) throw Error(ErrorCode::kUnavailable, "gemm_rs on cuda is not there yet");
}

void launch_sm90(runtime::WorldState&, const runtime::Plan&, int, const GemmArgs&) { check_target(DeviceKind::kCuda); }

}  // namespace mk::gemm_rs_op

namespace mk::gemm_ar_op {

void check_target(DeviceKind device) {
  if (device == DeviceKind::kCuda) throw Error(ErrorCode::kUnavailable, "gemm_ar on cuda is not there yet");
}

void launch_sm90(runtime::WorldState&, const runtime::Plan&, AllReducePath, int, const GemmArgs&) {
  check_target(DeviceKind::kCuda);
}

}  // namespace mk::gemm_ar_op

// SPDX-License-Identifier: MIT
// ops/sm90_absent.cc — compiled in place of the operators' kernels when there is no CUDA compiler.
//
// No World on a GPU can exist then, so these are never reached; they complete the link.
#include "mkernel/error.h"
#include "ops/ag_gemm/ag_gemm_problem.h"
#include "ops/gemm/gemm_launch.h"
#include "ops/gemm_ar/gemm_ar_problem.h"
#include "ops/gemm_rs/gemm_rs_problem.h"
#include "runtime/device.h"

namespace mk::gemm {

template <class Layout>
void launch_gpu(runtime::WorldState&, const runtime::Plan&, int, const GemmOperands&, Stream) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

template void launch_gpu<ag_gemm_op::Layout>(runtime::WorldState&, const runtime::Plan&, int, const GemmOperands&,
                                             Stream);
template void launch_gpu<gemm_rs_op::Layout>(runtime::WorldState&, const runtime::Plan&, int, const GemmOperands&,
                                             Stream);
template void launch_gpu<gemm_ar_op::OneShotLayout>(runtime::WorldState&, const runtime::Plan&, int,
                                                    const GemmOperands&, Stream);
template void launch_gpu<gemm_ar_op::TwoShotLayout>(runtime::WorldState&, const runtime::Plan&, int,
                                                    const GemmOperands&, Stream);

}  // namespace mk::gemm

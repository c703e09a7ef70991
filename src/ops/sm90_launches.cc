// SPDX-License-Identifier: MIT
// ops/sm90_launches.cc — every GEMM operator's launch on a GPU.
#include "base/check.h"
#include "ops/ag_gemm/ag_gemm_problem.h"
#include "ops/gemm/gemm_launch.h"
#include "ops/gemm/gemm_sm90.h"
#include "ops/gemm_ar/gemm_ar_problem.h"
#include "ops/gemm_rs/gemm_rs_problem.h"

namespace mk::gemm {

template <class Layout>
void launch_gpu(runtime::WorldState& world, const runtime::Plan& plan, int rank, const GemmOperands& operands,
                Stream asked) {
  const int inside = plan.layout<Layout>().roles.workers_per_compute() - 1;
  check_arg(inside <= 1, "a compute block has room for one worker inside; the layout has {}", inside);
  const Stream stream = runtime::is_default(asked) ? world.device().stream(rank) : asked;
  with_types(operands.a.dtype, operands.b_order, [&]<DType kDType, BOrder kOrder>() {
    GemmLauncher<Layout, kDType, kOrder>::launch(plan, rank, operands, static_cast<cudaStream_t>(stream));
  });
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

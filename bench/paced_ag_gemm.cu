// SPDX-License-Identifier: MIT
// bench/paced_ag_gemm.cu — the kernels of AllGather+GEMM with links slowed down.
#include "bench/paced_launch.cuh"
#include "ops/ag_gemm/ag_gemm_protocol.h"

namespace mk::bench {

static const runtime::KernelLoader loader(load_paced<ag_gemm_op::Layout>);

template void launch_paced<ag_gemm_op::Layout>(runtime::WorldState&, const runtime::Plan&, int,
                                               const gemm::GemmOperands&, const RankPace&);

}  // namespace mk::bench

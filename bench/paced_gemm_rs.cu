// SPDX-License-Identifier: MIT
// bench/paced_gemm_rs.cu — the kernels of GEMM+ReduceScatter with links slowed down.
#include "bench/paced_launch.cuh"
#include "ops/gemm_rs/gemm_rs_protocol.h"

namespace mk::bench {

static const runtime::KernelLoader loader(load_paced<gemm_rs_op::Layout>);

template void launch_paced<gemm_rs_op::Layout>(runtime::WorldState&, const runtime::Plan&, int,
                                               const gemm::GemmOperands&, const RankPace&);

}  // namespace mk::bench

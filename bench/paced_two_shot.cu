// SPDX-License-Identifier: MIT
// bench/paced_two_shot.cu — the kernels of GEMM+AllReduce in two shots with links slowed down.
#include "bench/paced_launch.cuh"
#include "ops/gemm_ar/gemm_ar_protocol.h"

namespace mk::bench {

static const runtime::KernelLoader loader(load_paced<gemm_ar_op::TwoShotLayout>);

template void launch_paced<gemm_ar_op::TwoShotLayout>(runtime::WorldState&, const runtime::Plan&, int,
                                                      const gemm::GemmOperands&, const RankPace&);

}  // namespace mk::bench

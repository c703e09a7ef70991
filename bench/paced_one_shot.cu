// SPDX-License-Identifier: MIT
// bench/paced_one_shot.cu — the kernels of GEMM+AllReduce in one shot with links slowed down.
#include "bench/paced_launch.cuh"
#include "ops/gemm_ar/gemm_ar_one_shot_protocol.h"

namespace mk::bench {

static const runtime::KernelLoader loader(load_paced<gemm_ar_op::OneShotLayout>);

template void launch_paced<gemm_ar_op::OneShotLayout>(runtime::WorldState&, const runtime::Plan&, int,
                                                      const gemm::GemmOperands&, const RankPace&);

}  // namespace mk::bench

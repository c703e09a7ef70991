// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_fuzz.h — what a seed draws for AllGather+GEMM.
#pragma once

#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "ops/gemm/gemm_fuzz.h"

namespace mk::ag_gemm_op {

Layout draw_layout(sim::Random& random, const FuzzLimits& limits);

using FuzzRun = gemm::FuzzRun<Layout, draw_layout>;

}  // namespace mk::ag_gemm_op

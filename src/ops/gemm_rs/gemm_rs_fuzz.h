// SPDX-License-Identifier: MIT
// ops/gemm_rs/gemm_rs_fuzz.h — what a seed draws for GEMM+ReduceScatter.
#pragma once

#include "ops/gemm/gemm_fuzz.h"
#include "ops/gemm_rs/gemm_rs_protocol.h"

namespace mk::gemm_rs_op {

Layout draw_layout(sim::Random& random, const FuzzLimits& limits);

using FuzzRun = gemm::FuzzRun<Layout, draw_layout>;

}  // namespace mk::gemm_rs_op

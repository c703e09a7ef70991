// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_fuzz.h — what a seed draws for GEMM+AllReduce, on either path.
#pragma once

#include "ops/gemm/gemm_fuzz.h"
#include "ops/gemm_ar/gemm_ar_one_shot_protocol.h"
#include "ops/gemm_ar/gemm_ar_protocol.h"

namespace mk::gemm_ar_op {

TwoShotLayout draw_two_shot(sim::Random& random, const FuzzLimits& limits);
OneShotLayout draw_one_shot(sim::Random& random, const FuzzLimits& limits);

using TwoShotRun = gemm::FuzzRun<TwoShotLayout, draw_two_shot>;
using OneShotRun = gemm::FuzzRun<OneShotLayout, draw_one_shot>;

}  // namespace mk::gemm_ar_op

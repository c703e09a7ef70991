// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_configs.h — the tile shapes of GEMM+AllReduce on each target: those of GEMM+ReduceScatter, for
// both paths.
#pragma once

#include "ops/gemm_rs/gemm_rs_configs.h"

namespace mk::gemm_ar_op {

constexpr gemm::TileShape kCpuTile = gemm_rs_op::kCpuTile;
constexpr gemm::TileShape kSimTile = gemm_rs_op::kSimTile;

}  // namespace mk::gemm_ar_op

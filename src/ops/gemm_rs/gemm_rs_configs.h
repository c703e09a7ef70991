// SPDX-License-Identifier: MIT
// ops/gemm_rs/gemm_rs_configs.h — the tile shapes of GEMM+ReduceScatter on each target.
//
// Bands are lower than those of AllGather+GEMM.  A band can be reduced only when the tiles of all owners in it are
// made, and the network should not wait long for the first band.
#pragma once

#include "ops/gemm/gemm_problem.h"

namespace mk::gemm_rs_op {

// Small, so that tests with small shapes have many tiles and tails.
constexpr gemm::TileShape kCpuTile{.m = 32, .n = 64, .band = 2};

constexpr gemm::TileShape kSm90Tile{.m = 128, .n = 256, .band = 4};

// Tiny, so that a fuzzed run of a whole world takes milliseconds and still has tails.
constexpr gemm::TileShape kSimTile{.m = 4, .n = 8, .band = 2};

}  // namespace mk::gemm_rs_op

// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_configs.h — the tile shapes of AllGather+GEMM on each target.
#pragma once

#include "ops/ag_gemm/ag_gemm_problem.h"

namespace mk::ag_gemm_op {

// Small, so that tests with small shapes have many tiles and tails.
constexpr TileShape kCpuTile{.m = 32, .n = 64, .band = 4, .part_bytes = 96};

// The tiles of a GPU are those of target/sm90/gemm_config.h.

// The one most shapes get, for tests of the protocol.
constexpr TileShape kSm90Tile{.m = 128, .n = 256, .band = 8};

// Tiny, so that a fuzzed run of a whole world takes milliseconds and still has tails.
constexpr TileShape kSimTile{.m = 4, .n = 8, .band = 2, .part_bytes = 16};

}  // namespace mk::ag_gemm_op

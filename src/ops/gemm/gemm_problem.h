// SPDX-License-Identifier: MIT
// ops/gemm/gemm_problem.h — the checks that operators around one GEMM share.
//
// Every check throws Error(kInvalidArgument) with a sentence that begins with the argument's name.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/world_shape.h"
#include "mkernel/gemm_args.h"
#include "mkernel/options.h"
#include "mkernel/types.h"
#include "runtime/members.h"

namespace mk::gemm {

struct Problem {
  WorldShape world;
  int64_t m = 0;  // rows of the whole result
  int64_t n = 0;
  int64_t k = 0;  // of one rank
  DType dtype = DType::kBf16;
  BOrder b_order = BOrder::kKN;
};

struct TileShape {
  int m = 0;
  int n = 0;
  int band = 1;                     // row blocks that share columns in the order of visit
  int cluster = 1;                  // workers that compute a tile together
  int64_t part_bytes = 128 * 1024;  // of its input, moved by one worker
};

// Columns of the result.
int64_t cols_of(const Tensor& b, BOrder order);

// Row blocks of a band: half as many as make a wave of tiles as high as it is wide.  A square reads the least, but
// was slower where several ranks shared a GPU, and no faster where one had it (docs/performance.md).
int band_of(int tile_m, int tile_n, int tiles_at_once);

// The tile of a GPU for a result whose rows are cut into shards, computed by so many blocks.
TileShape gpu_tile(const Problem& problem, int64_t shards, int blocks);

// m, n, k, dtype and b_order for themselves; whether the world divides m is a check of its own.
void check_sizes(const Problem& problem, DeviceKind device);
void check_world_divides_m(const Problem& problem);

// There is a signal for each tile.
void check_num_tiles(const Problem& problem, int64_t tiles);

void check_tensor(const Tensor& tensor, const char* name, int rank, int64_t rows, int64_t cols, DType dtype,
                  DeviceKind device);

Problem problem_of(const WorldShape& world, const runtime::Members& members, std::span<const GemmArgs> args);

// What one rank brings, if its A and C have so many rows.
void check_rank(const Problem& problem, int rank, const GemmArgs& args, int64_t a_rows, int64_t c_rows,
                DeviceKind device);
void check_args(const Problem& problem, const runtime::Members& members, std::span<const GemmArgs> args, int64_t c_rows,
                DeviceKind device);

// The name of a plan: what its layout follows from; `roles` in words.
std::string plan_key(const std::string& op, const Problem& problem, const std::string& roles);

}  // namespace mk::gemm

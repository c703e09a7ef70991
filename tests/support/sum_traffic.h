// SPDX-License-Identifier: MIT
// tests/support/sum_traffic.h — bytes that operators which sum over ranks must move and hold, by formula.
//
// With S the bytes of a shard (M/W rows of N), R ranks a node, N nodes, per rank and launch:
//
//   operator    NVLink           network     windows
//   gemm_rs     N·(R-1)·S        (N-1)·S     W·S + 2·(N-1)·S
//
// and 8 bytes a signal.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "ops/gemm_rs/gemm_rs_configs.h"
#include "ops/gemm_rs/gemm_rs_problem.h"
#include "tests/support/sum_launch.h"

namespace mk::test {

struct Traffic {
  uint64_t nvlink_bytes = 0;
  uint64_t network_bytes = 0;
};

inline Traffic traffic_of(SumOp op, const WorldShape& world, const Shape& shape, DType dtype) {
  const uint64_t shard = shape.shard_rows * shape.n * size_of(dtype);
  const uint64_t peers = world.ranks - 1;
  const uint64_t other_nodes = world.nodes - 1;
  switch (op) {
    case SumOp::kGemmRs: return {world.nodes * peers * shard, other_nodes * shard};
  }
  return {};
}

// On a CPU, whose tiles decide how many signals there are.
inline int64_t workspace_formula(SumOp op, const WorldShape& world, const Shape& shape, DType dtype) {
  const auto tiles_of = [&](int64_t rows) {
    return ceil_div<int64_t>(rows, gemm_rs_op::kCpuTile.m) * ceil_div<int64_t>(shape.n, gemm_rs_op::kCpuTile.n);
  };
  const int64_t shard = shape.shard_rows * shape.n * size_of(dtype);
  const int64_t tiles = tiles_of(shape.shard_rows);
  const int64_t size = world.size();
  const int64_t between = world.nodes > 1 ? 1 : 0;  // what only several nodes need
  switch (op) {
    case SumOp::kGemmRs: {
      const int64_t windows = size == 1 ? 0 : size * shard + 2 * (world.nodes - 1) * shard;
      return windows + 8 * (size + (1 + between) * world.nodes * tiles);
    }
  }
  return 0;
}

// Of one rank: everybody but itself is ready; every tile it reduces; what other nodes send.
inline size_t signals_used(const gemm_rs_op::Layout& layout) {
  const WorldShape& world = layout.world;
  return (world.ranks - 1) + (world.nodes - 1) + (2 * world.nodes - 1) * layout.shard.tiles();
}

inline int64_t workspace_bytes(SumOp op, const World& world, const Shape& shape, DType dtype) {
  const int64_t m = shape.shard_rows * world.size();
  switch (op) {
    case SumOp::kGemmRs: return gemm_rs_workspace_bytes(world, m, shape.n, shape.k, dtype);
  }
  return 0;
}

}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/support/sum_traffic.h — bytes that operators which sum over ranks must move and hold, by formula.
//
// With S the bytes of a shard (M/W rows), W ranks, R of them a node, N nodes, per rank and launch:
//
//   operator            NVLink           network        windows
//   gemm_rs             N·(R-1)·S        (N-1)·S        W·S + 2·(N-1)·S
//   gemm_ar             2·N·(R-1)·S      2·(N-1)·S      W·S + 2·(N-1)·S + N·S
//   gemm_ar, one shot   ·W·S        (N-1)·W·S      R·W·S + N·W·S, the second with several nodes only
//
// and 8 bytes a signal.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "ops/gemm_ar/gemm_ar_one_shot.h"
#include "ops/gemm_ar/gemm_ar_two_shot.h"
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
    case SumOp::kGemmAr: return {2 * world.nodes * peers * shard, 2 * other_nodes * shard};
    case SumOp::kGemmArOneShot: return {peers * world.size() * shard, other_nodes * world.size() * shard};
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
  const int64_t scattered = size == 1 ? 0 : size * shard + 2 * (world.nodes - 1) * shard;
  const int64_t scattered_signals = size + (1 + between) * world.nodes * tiles;
  const int64_t everywhere = size == 1 ? 0 : (world.ranks + between * world.nodes) * size * shard;
  switch (op) {
    case SumOp::kGemmRs: return scattered + 8 * scattered_signals;
    case SumOp::kGemmAr:
      return scattered + (size == 1 ? 0 : world.nodes * shard) + 8 * (scattered_signals + size * tiles);
    case SumOp::kGemmArOneShot:
      return everywhere + 8 * (size + (1 + between * world.nodes) * tiles_of(size * shape.shard_rows));
  }
  return 0;
}

// Of one rank: everybody but itself is ready; every tile it reduces; what other nodes send.
inline size_t signals_used(const gemm_rs_op::Layout& layout) {
  const WorldShape& world = layout.world;
  return (world.ranks - 1) + (world.nodes - 1) + (2 * world.nodes - 1) * layout.shard.tiles();
}

// … and every finished tile that is not its own.
inline size_t signals_used(const gemm_ar_op::TwoShotLayout& layout) {
  const gemm_rs_op::Layout& first_half = layout;
  return signals_used(first_half) + (layout.world.size() - 1) * layout.shard.tiles();
}

inline size_t signals_used(const gemm_ar_op::OneShotLayout& layout) {
  const WorldShape& world = layout.world;
  return (world.ranks - 1) + (world.nodes - 1) + world.nodes * layout.whole.tiles();
}

inline int64_t workspace_bytes(SumOp op, const World& world, const Shape& shape, DType dtype) {
  const int64_t m = shape.shard_rows * world.size();
  switch (op) {
    case SumOp::kGemmRs: return gemm_rs_workspace_bytes(world, m, shape.n, shape.k, dtype);
    case SumOp::kGemmAr: return gemm_ar_workspace_bytes(world, m, shape.n, shape.k, dtype, AllReducePath::kTwoShot);
    case SumOp::kGemmArOneShot:
      return gemm_ar_workspace_bytes(world, m, shape.n, shape.k, dtype, AllReducePath::kOneShot);
  }
  return 0;
}

}  // namespace mk::test

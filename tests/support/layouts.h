// SPDX-License-Identifier: MIT
// tests/support/layouts.h — layouts of AllGather+GEMM for tests where nothing runs.
#pragma once

#include <array>

#include "ops/ag_gemm/ag_gemm_configs.h"
#include "ops/ag_gemm/ag_gemm_problem.h"
#include "tests/support/worlds.h"

namespace mk::test {

// Wanted counts; a role the world has no use for gets none.
inline constexpr std::array<Roster, 5> kSplits = {{ag_gemm_op::roster(1, 1, 1), ag_gemm_op::roster(2, 1, 5),
                                                   ag_gemm_op::roster(3, 2, 7), ag_gemm_op::roster(16, 2, 114),
                                                   ag_gemm_op::roster_with_intra_inside(2, 7)}};

inline Roster roles_for(const WorldShape& world, const Roster& wanted) {
  const int send = world.nodes > 1 ? wanted.count(ag_gemm_op::Layout::kSend) : 0;
  if (world.ranks == 1) return ag_gemm_op::roster(0, send, wanted.num_compute());
  if (wanted.has_inside()) return ag_gemm_op::roster_with_intra_inside(send, wanted.num_compute());
  return ag_gemm_op::roster(wanted.count(ag_gemm_op::Layout::kIntra), send, wanted.num_compute());
}

inline ag_gemm_op::Layout layout_of(const WorldShape& world, const Shape& shape,
                                    const ag_gemm_op::TileShape& tile = ag_gemm_op::kCpuTile,
                                    const Roster& wanted = kSplits[0], DType dtype = DType::kBf16) {
  const ag_gemm_op::Problem problem{world, shape.shard_rows * world.size(), shape.n, shape.k, dtype};
  return ag_gemm_op::make_layout(problem, tile, roles_for(world, wanted));
}

// Calls body with every shape of the tables under every tiling.
template <class Body>
void for_each_tiling(Body&& body) {
  for (const ag_gemm_op::TileShape& tile : {ag_gemm_op::kCpuTile, ag_gemm_op::kSm90Tile}) {
    for (const Shape& shape : kShapes) body(shape, tile);
    for (const Shape& shape : kLargeShapes) body(shape, tile);
  }
}

}  // namespace mk::test

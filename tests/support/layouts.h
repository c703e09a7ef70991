// SPDX-License-Identifier: MIT
// tests/support/layouts.h — layouts of AllGather+GEMM for tests where nothing runs.
#pragma once

#include <array>

#include "ops/ag_gemm/ag_gemm_configs.h"
#include "ops/ag_gemm/ag_gemm_problem.h"
#include "tests/support/worlds.h"

namespace mk::test {

// Wanted counts; a role the world has no use for gets none.
inline constexpr std::array<RoleCounts, 5> kSplits = {
    {{1, 1, 1}, {2, 1, 5}, {3, 2, 7}, {16, 2, 114}, with_intra_inside({0, 2, 7})}};

inline RoleCounts roles_for(const WorldShape& world, const RoleCounts& wanted) {
  const bool has_peers = world.ranks > 1;
  const bool has_nodes = world.nodes > 1;
  const RoleCounts roles{has_peers ? wanted.intra : 0, has_nodes ? wanted.send : 0, wanted.compute};
  return has_peers && wanted.intra_inside ? with_intra_inside(roles) : roles;
}

inline ag_gemm_op::Layout layout_of(const WorldShape& world, const Shape& shape,
                                    const ag_gemm_op::TileShape& tile = ag_gemm_op::kCpuTile,
                                    const RoleCounts& wanted = kSplits[0], DType dtype = DType::kBf16) {
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

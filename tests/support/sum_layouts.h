// SPDX-License-Identifier: MIT
// tests/support/sum_layouts.h — layouts of the operators that sum over ranks, for tests where nothing runs.
#pragma once

#include <array>

#include "ops/gemm_ar/gemm_ar_one_shot_protocol.h"
#include "ops/gemm_ar/gemm_ar_problem.h"
#include "ops/gemm_ar/gemm_ar_protocol.h"
#include "ops/gemm_rs/gemm_rs_configs.h"
#include "ops/gemm_rs/gemm_rs_protocol.h"
#include "tests/support/sum_launch.h"

namespace mk::test {

inline constexpr std::array<dense::TileShape, 2> kSumTiles = {{gemm_rs_op::kCpuTile, gemm_rs_op::kSm90Tile}};

// Wanted counts; a role the operator has no use for gets none.
inline const std::array<Split, 3> kSumSplits = {{{{"compute", 1}, {"intra", 1}, {"reduce", 1}},
                                                 {{"compute", 5}, {"intra", 3}, {"reduce", 2}},
                                                 {{"compute", 114}, {"intra", 2}, {"reduce", 8}}}};

inline Roster sum_roles(SumOp op, const WorldShape& world, const Split& wanted) {
  const Split least = smallest_split(op, world);
  const auto count = [&](const char* role) { return least.at(role) > 0 ? wanted.at(role) : 0; };
  if (op == SumOp::kGemmAr) return {{count("intra")}, {count("reduce")}, {count("compute")}};
  return {{count("reduce")}, {count("compute")}};
}

// How an operator is cut.
struct Cut {
  Shape shape = {33, 65, 3};  // two row blocks and two columns of tiles a shard, the last ones short
  dense::TileShape tile = gemm_rs_op::kCpuTile;
  Split split = kSumSplits[0];
};

inline dense::Problem problem_of(const WorldShape& world, const Shape& shape) {
  return {world, shape.shard_rows * world.size(), shape.n, shape.k, DType::kBf16};
}

inline gemm_rs_op::Layout rs_layout(const WorldShape& world, const Cut& cut = {}) {
  return gemm_rs_op::make_layout(problem_of(world, cut.shape), cut.tile, sum_roles(SumOp::kGemmRs, world, cut.split));
}

inline gemm_ar_op::TwoShotLayout ar_layout(const WorldShape& world, const Cut& cut = {}) {
  return gemm_ar_op::make_two_shot(problem_of(world, cut.shape), cut.tile, sum_roles(SumOp::kGemmAr, world, cut.split));
}

inline gemm_ar_op::OneShotLayout one_shot_layout(const WorldShape& world, const Cut& cut = {}) {
  return gemm_ar_op::make_one_shot(problem_of(world, cut.shape), cut.tile,
                                   sum_roles(SumOp::kGemmArOneShot, world, cut.split));
}

// Calls body with the operator's layout, whatever its type is.
template <class Body>
void with_layout(SumOp op, const WorldShape& world, const Cut& cut, Body&& body) {
  switch (op) {
    case SumOp::kGemmRs: return body(rs_layout(world, cut));
    case SumOp::kGemmAr: return body(ar_layout(world, cut));
    case SumOp::kGemmArOneShot: return body(one_shot_layout(world, cut));
  }
}

template <class Body>
void for_each_cut(Body&& body) {
  for (const dense::TileShape& tile : kSumTiles) {
    for (const Split& split : kSumSplits) {
      for (const Shape& shape : {Shape{1, 1, 1}, Shape{33, 65, 17}, Shape{67, 7, 1}, Shape{129, 257, 3}}) {
        SCOPED_TRACE(name_of(shape) + ", tile of " + std::to_string(tile.m) + ", " +
                     std::to_string(split.at("compute")) + " compute workers");
        body(Cut{shape, tile, split});
      }
    }
  }
}

}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/cuda/gpu_sum_tile_test.cc — GPU features of the summing operators only: their choice of tiles, and any M.
#include <gtest/gtest.h>

#include "ops/gemm/gemm_problem.h"
#include "target/sm90/gemm_config.h"
#include "tests/cuda/gpu_launch.h"

namespace mk::test {
namespace {

struct TileCase {
  Shape shape;
  sm90::GemmTile tile;
};

class GpuSumTile : public testing::TestWithParam<Op> {};

INSTANTIATE_TEST_SUITE_P(All, GpuSumTile, testing::Values(Op::kGemmRs, Op::kGemmAr, Op::kGemmArOneShot),
                         case_name<testing::TestParamInfo<Op>>);

// One block computes all, so it has several tiles, and the largest that wastes little is chosen.
TEST_P(GpuSumTile, EveryTileOfTheEngineIsRight) {
  MK_NEEDS_GPU();
  constexpr TileCase kCases[] = {
      {{250, 504, 136}, {128, 256}}, {{120, 376, 136}, {128, 128}}, {{20, 72, 264}, {64, 128}}};
  static_assert(std::size(kCases) == sm90::kSoloTiles.size());
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 1}}) {
    World world = gpu_world(shape);
    for (const TileCase& at : kCases) {
      const gemm::Problem problem{shape, at.shape.shard_rows * 2, at.shape.n, at.shape.k};
      for (const int shards : {1, 2}) {
        const gemm::TileShape tile = gemm::gpu_tile(problem, shards, 1);
        ASSERT_EQ((sm90::GemmTile{tile.m, tile.n}), at.tile) << name_of(at.shape);
      }
      const Split split = row_of(GetParam()).smallest_split(shape);
      EXPECT_TRUE(gpu_runs_right(world, GetParam(), at.shape, {.dtype = DType::kBf16, .launches = 2, .split = split}));
    }
  }
}

TEST(GpuSumOneShot, TheWorldNeedNotDivideM) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 3}}) {
    World world = gpu_world(shape);
    OpLaunch host(Op::kGemmArOneShot, shape, {.shape = {21, 136, 72}, .dtype = DType::kBf16, .more_rows = 1});
    const GpuLaunch gpu(world, host);
    gpu.enqueue(world);
    world.synchronize();
    gpu.fetch_into(host);
    EXPECT_TRUE(host.is_right());
  }
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/cuda/gpu_sum_test.cc — operators that sum over ranks, on a Hopper GPU: the bits that the arithmetic says.
#include <gtest/gtest.h>

#include <tuple>

#include "ops/dense/dense_problem.h"
#include "target/sm90/gemm_config.h"
#include "tests/cuda/gpu_launch.h"

namespace mk::test {
namespace {

constexpr WorldShape kGpuSumWorlds[] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}, {1, 8}, {2, 3}};

// As those of gpu_world_test.cc, with fewer rows: every rank multiplies all of them, and the host checks.
constexpr Shape kGpuSumShapes[] = {{1, 8, 8}, {37, 72, 72}, {65, 264, 24}, {3, 136, 328}};

class GpuSum : public testing::TestWithParam<std::tuple<SumOp, WorldShape, DType>> {
 protected:
  const SumOp op = std::get<0>(GetParam());
  const WorldShape shape = std::get<1>(GetParam());
  const DType dtype = std::get<2>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All, GpuSum,
                         testing::Combine(testing::ValuesIn(kSumOps), testing::ValuesIn(kGpuSumWorlds),
                                          testing::Values(DType::kBf16, DType::kFp16)),
                         joined_names);

TEST_P(GpuSum, FiveQueuedLaunchesWithTailsEverywhereAreExact) {
  MK_NEEDS_GPU();
  World world = gpu_world(shape);
  for (const Shape& at : kGpuSumShapes) EXPECT_TRUE(gpu_runs_right(world, op, at, {.dtype = dtype}));
}

TEST_P(GpuSum, WholeNumbersHaveTheBitsOfTheCpuMachine) {
  MK_NEEDS_GPU();
  for (const BOrder order : {BOrder::kKN, BOrder::kNK}) {
    const SumCase at{op, {67, 200, 72}, dtype, order};
    SumLaunch on_cpu(shape, at, 1);
    SumLaunch on_gpu(shape, at, 1);
    World threads = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
    World world = gpu_world(shape);
    const GpuLaunch gpu(world, on_gpu);
    enqueue(threads, on_cpu);
    call(op, world, gpu.args());
    threads.synchronize();
    world.synchronize();
    gpu.fetch_into(on_gpu);
    EXPECT_TRUE(on_gpu.has_the_same_bits(on_cpu)) << name_of(order);
  }
}

TEST_P(GpuSum, RunsOfTheSameDataGiveTheSameBits) {
  MK_NEEDS_GPU();
  const SumCase at{op, {67, 264, 72}, dtype};
  SumLaunch first(shape, at, 1, Data::kUniform);
  SumLaunch second(shape, at, 1, Data::kUniform);
  for (SumLaunch* launch : {&first, &second}) {
    World world = gpu_world(shape);
    const GpuLaunch gpu(world, *launch);
    call(op, world, gpu.args());
    world.synchronize();
    gpu.fetch_into(*launch);
    EXPECT_TRUE(launch->is_right());
  }
  EXPECT_TRUE(first.has_the_same_bits(second));
}

struct TileCase {
  Shape shape;
  sm90::GemmTile tile;
};

class GpuSumTile : public testing::TestWithParam<SumOp> {};

INSTANTIATE_TEST_SUITE_P(All, GpuSumTile, testing::ValuesIn(kSumOps), case_name<testing::TestParamInfo<SumOp>>);

// One block computes all, so it has several tiles, and the largest that wastes little is chosen.
TEST_P(GpuSumTile, EveryTileOfTheEngineIsRight) {
  MK_NEEDS_GPU();
  constexpr TileCase kCases[] = {
      {{250, 504, 136}, {128, 256}}, {{120, 376, 136}, {128, 128}}, {{20, 72, 264}, {64, 128}}};
  static_assert(std::size(kCases) == sm90::kSoloTiles.size());
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 1}}) {
    World world = gpu_world(shape);
    for (const TileCase& at : kCases) {
      const dense::Problem problem{shape, at.shape.shard_rows * 2, at.shape.n, at.shape.k};
      for (const int shards : {1, 2}) {
        const dense::TileShape tile = dense::gpu_tile(problem, shards, 1);
        ASSERT_EQ((sm90::GemmTile{tile.m, tile.n}), at.tile) << name_of(at.shape);
      }
      const Split split = smallest_split(GetParam(), shape);
      EXPECT_TRUE(gpu_runs_right(world, GetParam(), at.shape, {.dtype = DType::kBf16, .launches = 2, .split = split}));
    }
  }
}

TEST_P(GpuSumTile, ARingOfOneSlotStillCarriesEverything) {
  MK_NEEDS_GPU();
  World world = gpu_world({2, 2}, {.timeout_ms = 5000, .ring_capacity = 1});
  EXPECT_TRUE(gpu_runs_right(world, GetParam(), {130, 264, 72}, {.dtype = DType::kBf16, .launches = 3}));
}

TEST_P(GpuSumTile, TwoHundredLaunchesBackToBackAreAllRight) {
  MK_NEEDS_GPU();
  World world = gpu_world({2, 2});
  EXPECT_TRUE(gpu_runs_right(world, GetParam(), {9, 136, 24}, {.dtype = DType::kFp16, .launches = 200}));
}

TEST(GpuSumOneShot, TheWorldNeedNotDivideM) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 3}}) {
    World world = gpu_world(shape);
    SumLaunch host(shape, {SumOp::kGemmArOneShot, {21, 136, 72}, DType::kBf16, BOrder::kKN, 1}, 1);
    const GpuLaunch gpu(world, host);
    call(SumOp::kGemmArOneShot, world, gpu.args());
    world.synchronize();
    gpu.fetch_into(host);
    EXPECT_TRUE(host.is_right());
  }
}

}  // namespace
}  // namespace mk::test

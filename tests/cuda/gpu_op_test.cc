// SPDX-License-Identifier: MIT
// tests/cuda/gpu_op_test.cc — every operator on a Hopper GPU: the bits that the arithmetic says.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/cuda/gpu_launch.h"

namespace mk::test {
namespace {

constexpr WorldShape kGpuWorlds[] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}, {1, 8}, {2, 3}};

class GpuOp : public testing::TestWithParam<std::tuple<Op, WorldShape, DType>> {
 protected:
  const Op op = std::get<0>(GetParam());
  const WorldShape shape = std::get<1>(GetParam());
  const DType dtype = std::get<2>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All, GpuOp,
                         testing::Combine(testing::ValuesIn(kOps), testing::ValuesIn(kGpuWorlds),
                                          testing::Values(DType::kBf16, DType::kFp16)),
                         joined_names);
INSTANTIATE_TEST_SUITE_P(Larger, GpuOp,
                         testing::Combine(testing::Values(Op::kAgGemm),
                                          testing::Values(WorldShape{2, 8}, WorldShape{3, 4}, WorldShape{4, 2}),
                                          testing::Values(DType::kBf16, DType::kFp16)),
                         joined_names);

TEST_P(GpuOp, FiveQueuedLaunchesWithTailsEverywhereAreExact) {
  MK_NEEDS_GPU();
  World world = gpu_world(shape);
  for (const Shape& at : row_of(op).sizes().on_gpu) EXPECT_TRUE(gpu_runs_right(world, op, at, {.dtype = dtype}));
}

TEST_P(GpuOp, WholeNumbersHaveTheBitsOfTheCpuMachine) {
  MK_NEEDS_GPU();
  for (const BOrder order : {BOrder::kKN, BOrder::kNK}) {
    const OpCase at{{67, 200, 72}, dtype, {order}};
    OpLaunch on_cpu(op, shape, at);
    OpLaunch on_gpu(op, shape, at);
    World threads = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
    World world = gpu_world(shape);
    const GpuLaunch gpu(world, on_gpu);
    enqueue(threads, on_cpu);
    gpu.enqueue(world);
    threads.synchronize();
    world.synchronize();
    gpu.fetch_into(on_gpu);
    EXPECT_TRUE(on_gpu.has_the_same_bits(on_cpu)) << name_of(order);
  }
}

TEST_P(GpuOp, RunsOfTheSameDataGiveTheSameBits) {
  MK_NEEDS_GPU();
  const OpCase at{{67, 264, 72}, dtype};
  OpLaunch first(op, shape, at, 1, Data::kUniform);
  OpLaunch second(op, shape, at, 1, Data::kUniform);
  for (OpLaunch* launch : {&first, &second}) {
    World world = gpu_world(shape);
    const GpuLaunch gpu(world, *launch);
    gpu.enqueue(world);
    world.synchronize();
    gpu.fetch_into(*launch);
    EXPECT_TRUE(launch->is_right());
  }
  EXPECT_TRUE(first.has_the_same_bits(second));
}

class GpuOpWorld : public testing::TestWithParam<Op> {
 protected:
  const Op op = GetParam();
};

INSTANTIATE_TEST_SUITE_P(All, GpuOpWorld, testing::ValuesIn(kOps), case_name<testing::TestParamInfo<Op>>);

TEST_P(GpuOpWorld, CarriesEverythingThroughARingOfOneSlot) {
  MK_NEEDS_GPU();
  World world = gpu_world({2, 2}, {.timeout_ms = 5000, .ring_capacity = 1});
  const Shape& shape = row_of(op).sizes().gpu_several;
  EXPECT_TRUE(gpu_runs_right(world, op, shape, {.dtype = DType::kBf16, .launches = 3}));
}

TEST_P(GpuOpWorld, IsRightInTwoHundredLaunchesBackToBack) {
  MK_NEEDS_GPU();
  World world = gpu_world({2, 2});
  EXPECT_TRUE(gpu_runs_right(world, op, {9, 136, 24}, {.dtype = DType::kFp16, .launches = 200}));
}

}  // namespace
}  // namespace mk::test

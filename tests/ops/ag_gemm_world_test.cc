// SPDX-License-Identifier: MIT
// tests/ops/ag_gemm_world_test.cc — many shapes, splits, rings and Worlds around one operator.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "ops/ag_gemm/ag_gemm_problem.h"
#include "ops/ag_gemm/ag_gemm_targets.h"
#include "tests/support/ag_gemm_launch.h"

namespace mk::test {
namespace {

constexpr Shape kSmall{33, 65, 17};
constexpr Shape kOther{7, 130, 5};

World cpu_world(const WorldShape& shape, const Options& options = {}) {
  return World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, options);
}

class AgGemmWorld : public testing::TestWithParam<WorldShape> {};

INSTANTIATE_TEST_SUITE_P(Worlds, AgGemmWorld, testing::ValuesIn(kWorlds),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(AgGemmWorld, TwoShapesAndDTypesMayAlternateWithNoWaitBetween) {
  World world = cpu_world(GetParam());
  std::vector<AgGemmLaunch> launches;
  for (int i = 0; i < 6; ++i) {
    launches.emplace_back(GetParam(), i % 2 == 0 ? kSmall : kOther, i % 3 == 0 ? DType::kBf16 : DType::kFp32, i);
    enqueue(world, launches.back());
  }
  world.synchronize();
  for (const AgGemmLaunch& launch : launches) EXPECT_TRUE(launch.is_right());
}

TEST_P(AgGemmWorld, ARingOfOneCommandIsEnough) {
  World world = cpu_world(GetParam(), {.ring_capacity = 1});
  EXPECT_TRUE(runs_right(world, {97, 65, 3}));
}

TEST_P(AgGemmWorld, BytesOnTheLinksAreWhatTheScheduleSays) {
  World world = cpu_world(GetParam());
  const WorldShape shape = GetParam();
  constexpr int kLaunches = 3;
  EXPECT_TRUE(runs_right(world, kSmall, {.launches = kLaunches}));

  const ag_gemm_op::Problem problem{shape, kSmall.shard_rows * shape.size(), kSmall.n, kSmall.k, DType::kFp32};
  const runtime::Plan& plan = ag_gemm_op::plan_for(world.state(), problem, {});
  const uint64_t shard_bytes = kSmall.shard_rows * kSmall.k * size_of(DType::kFp32);
  for (int rank = 0; rank < shape.size(); ++rank) {
    EXPECT_EQ(plan.nvlink_bytes(rank), kLaunches * shape.nodes * (shape.ranks - 1) * shard_bytes);
    EXPECT_EQ(world.network_stats(rank).bytes, kLaunches * (shape.nodes - 1) * shard_bytes);
  }
}

TEST_P(AgGemmWorld, AWorldMayMoveWhileLaunchesAreQueued) {
  World first = cpu_world(GetParam());
  AgGemmLaunch launch(GetParam(), kSmall, DType::kFp32, 1);
  enqueue(first, launch);
  World second = std::move(first);
  second.synchronize();
  EXPECT_TRUE(launch.is_right());
  EXPECT_TRUE(runs_right(second, kSmall));
}

TEST_P(AgGemmWorld, DestroyingAWorldFinishesWhatWasQueued) {
  AgGemmLaunch launch(GetParam(), kSmall, DType::kFp32, 1);
  {
    World world = cpu_world(GetParam());
    enqueue(world, launch);
  }
  EXPECT_TRUE(launch.is_right());
}

TEST_P(AgGemmWorld, WorkspaceHoldsTheGatheredRowsAndASignalForEachChunkAndRankAndPartPassedOn) {
  const World world = cpu_world(GetParam());
  const int64_t size = world.size();
  const int64_t chunks = 2 * size;  // 33 rows: one past the CPU's tile
  const bool passes_on = GetParam().nodes > 1 && GetParam().ranks > 1;
  const int64_t parts = passes_on ? GetParam().nodes * 2 * 12 : 0;
  const int64_t gathered = size == 1 ? 0 : size * kSmall.shard_rows * kSmall.k * 2;
  EXPECT_EQ(ag_gemm_workspace_bytes(world, kSmall.shard_rows * size, kSmall.n, kSmall.k, DType::kBf16),
            gathered + (size + chunks + parts) * 8);
}

TEST(Worlds, SeveralAtOnceDoNotDisturbEachOther) {
  std::vector<World> worlds;
  std::vector<AgGemmLaunch> launches;
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 2}, WorldShape{3, 1}}) {
    worlds.push_back(cpu_world(shape));
  }
  for (int round = 0; round < 3; ++round) {
    for (World& world : worlds) {
      launches.emplace_back(shape_of(world), kSmall, DType::kFp32, launches.size());
      enqueue(world, launches.back());
    }
  }
  for (World& world : worlds) world.synchronize();
  for (const AgGemmLaunch& launch : launches) EXPECT_TRUE(launch.is_right());
}

TEST(Worlds, AssigningOverAWorldEndsTheOldOne) {
  World world = cpu_world({2, 2});
  AgGemmLaunch launch({2, 2}, kSmall, DType::kFp32, 1);
  enqueue(world, launch);
  world = cpu_world({1, 3});
  EXPECT_TRUE(launch.is_right());
  EXPECT_TRUE(runs_right(world, kSmall));
}

TEST(Worlds, SayWhatTheyAre) {
  const World world = cpu_world({2, 3});
  EXPECT_EQ(world.nodes(), 2);
  EXPECT_EQ(world.ranks_per_node(), 3);
  EXPECT_EQ(world.size(), 6);
  EXPECT_EQ(world.device(), DeviceKind::kCpu);
  EXPECT_FALSE(world.failed());
  EXPECT_EQ(world.rank_stream(5), nullptr);
}

struct SplitCase {
  WorldShape world;
  Split split;
};

class AgGemmSplit : public testing::TestWithParam<SplitCase> {};

// Up to the five workers every CPU rank has.
INSTANTIATE_TEST_SUITE_P(Splits, AgGemmSplit,
                         testing::Values(SplitCase{{1, 1}, {{"compute", 1}}}, SplitCase{{1, 1}, {{"compute", 3}}},
                                         SplitCase{{1, 3}, {{"compute", 1}, {"intra", 4}}},
                                         SplitCase{{1, 3}, {{"compute", 3}, {"intra", 2}}},
                                         SplitCase{{2, 1}, {{"compute", 1}, {"send", 1}}},
                                         SplitCase{{2, 1}, {{"compute", 1}, {"send", 3}}},
                                         SplitCase{{2, 3}, {{"compute", 1}, {"intra", 1}, {"send", 1}}},
                                         SplitCase{{2, 3}, {{"compute", 2}, {"intra", 1}, {"send", 1}}},
                                         SplitCase{{2, 3}, {{"compute", 1}, {"intra", 2}, {"send", 1}}},
                                         SplitCase{{3, 2}, {{"compute", 1}, {"intra", 1}, {"send", 2}}},
                                         SplitCase{{3, 2}, {{"compute", 1}, {"intra", 3}, {"send", 1}}}));

TEST_P(AgGemmSplit, ResultDoesNotDependOnIt) {
  World world = cpu_world(GetParam().world);
  EXPECT_TRUE(runs_right(world, {97, 65, 3}, {.split = GetParam().split}));
}

}  // namespace
}  // namespace mk::test

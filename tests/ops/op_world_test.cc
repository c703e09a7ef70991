// SPDX-License-Identifier: MIT
// tests/ops/op_world_test.cc — shapes, splits, rings, bytes, workspace and Worlds around every operator.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/op_launch.h"

namespace mk::test {
namespace {

constexpr Shape kSmall{33, 65, 17};
constexpr Shape kOther{7, 130, 5};

World cpu_world(const WorldShape& shape, const Options& options = {}) {
  return World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, options);
}

class OpWorld : public testing::TestWithParam<std::tuple<Op, WorldShape>> {
 protected:
  const Op op = std::get<0>(GetParam());
  const WorldShape shape = std::get<1>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Worlds, OpWorld, testing::Combine(testing::ValuesIn(kOps), testing::ValuesIn(kWorlds)),
                         joined_names);

TEST_P(OpWorld, TwoShapesAndDTypesMayAlternateWithNoWaitBetween) {
  World world = cpu_world(shape);
  EXPECT_TRUE(all_run_right(world, 6, [&](int i) {
    const OpCase at{i % 2 == 0 ? kSmall : kOther, i % 3 == 0 ? DType::kBf16 : DType::kFp32};
    return OpLaunch(op, shape, at, i);
  }));
}

TEST_P(OpWorld, ARingOfOneCommandIsEnough) {
  World world = cpu_world(shape, {.ring_capacity = 1});
  EXPECT_TRUE(runs_right(world, op, row_of(op).sizes().several));
}

TEST_P(OpWorld, BytesOnTheLinksAreWhatTheFormulaSaysWithTails) {
  World world = cpu_world(shape);
  constexpr int kLaunches = 3;
  EXPECT_TRUE(runs_right(world, op, kSmall, {.launches = kLaunches}));
  OpLaunch launch(op, shape, {kSmall});
  const runtime::Plan& plan = plan_of(world.state(), launch);
  const Traffic expected = row_of(op).expected_traffic(shape, {kSmall});
  for (int rank = 0; rank < shape.size(); ++rank) {
    EXPECT_EQ(plan.nvlink_bytes(rank), kLaunches * expected.nvlink_bytes);
    EXPECT_EQ(world.network_stats(rank).bytes, kLaunches * expected.network_bytes);
  }
}

TEST_P(OpWorld, WorkspaceIsWhatTheFormulaSays) {
  const World world = cpu_world(shape);
  const OpCase at{kSmall, DType::kBf16};
  EXPECT_EQ(row_of(op).workspace_bytes(world, at), row_of(op).expected_workspace(shape, at));
}

TEST_P(OpWorld, MayMoveWhileLaunchesAreQueued) {
  World first = cpu_world(shape);
  OpLaunch launch(op, shape, {kSmall});
  enqueue(first, launch);
  World second = std::move(first);
  second.synchronize();
  EXPECT_TRUE(launch.is_right());
  EXPECT_TRUE(runs_right(second, op, kSmall));
}

TEST_P(OpWorld, DestroyedFinishesWhatWasQueued) {
  OpLaunch launch(op, shape, {kSmall});
  {
    World world = cpu_world(shape);
    enqueue(world, launch);
  }
  EXPECT_TRUE(launch.is_right());
}

// Up to the five workers every CPU rank has: one in each role, two more in one of them, one more in two.
std::vector<Split> splits_of(const Split& least) {
  std::vector<Split> splits{least, least};
  std::string last;
  for (const auto& [role, count] : least) {
    if (count == 0) continue;
    splits.push_back(least);
    splits.back()[role] += 2;
    last = role;
  }
  splits[1]["compute"] = 2;
  if (last != "compute") splits[1][last] = 2;
  return splits;
}

TEST_P(OpWorld, HasTheSameResultWithEverySplit) {
  World world = cpu_world(shape);
  for (const Split& split : splits_of(row_of(op).smallest_split(shape))) {
    EXPECT_TRUE(runs_right(world, op, row_of(op).sizes().several, {.split = split}));
  }
}

TEST(Worlds, SeveralAtOnceDoNotDisturbEachOther) {
  std::vector<World> worlds;
  std::vector<OpLaunch> launches;
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 2}, WorldShape{3, 1}}) {
    worlds.push_back(cpu_world(shape));
  }
  for (size_t i = 0; i < 3 * kOps.size(); ++i) {
    for (World& world : worlds) {
      launches.emplace_back(kOps[i % kOps.size()], shape_of(world), OpCase{kSmall}, launches.size());
      enqueue(world, launches.back());
    }
  }
  for (World& world : worlds) world.synchronize();
  for (const OpLaunch& launch : launches) EXPECT_TRUE(launch.is_right());
}

TEST(Worlds, AssigningOverAWorldEndsTheOldOne) {
  World world = cpu_world({2, 2});
  OpLaunch launch(Op::kAgGemm, {2, 2}, {kSmall});
  enqueue(world, launch);
  world = cpu_world({1, 3});
  EXPECT_TRUE(launch.is_right());
  EXPECT_TRUE(runs_right(world, Op::kAgGemm, kSmall));
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

}  // namespace
}  // namespace mk::test

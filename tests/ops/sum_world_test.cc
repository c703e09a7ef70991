// SPDX-License-Identifier: MIT
// tests/ops/sum_world_test.cc — shapes, splits, rings, bytes and workspace of operators that sum over ranks.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "tests/support/sum_launch.h"
#include "tests/support/sum_traffic.h"

namespace mk::test {
namespace {

constexpr Shape kSmall{33, 65, 17};
constexpr Shape kOther{7, 130, 5};

World cpu_world(const WorldShape& shape, const Options& options = {}) {
  return World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, options);
}

class SumWorld : public testing::TestWithParam<std::tuple<SumOp, WorldShape>> {
 protected:
  const SumOp op = std::get<0>(GetParam());
  const WorldShape shape = std::get<1>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Worlds, SumWorld, testing::Combine(testing::ValuesIn(kSumOps), testing::ValuesIn(kWorlds)),
                         joined_names);

TEST_P(SumWorld, TwoShapesAndDTypesMayAlternateWithNoWaitBetween) {
  World world = cpu_world(shape);
  std::vector<SumLaunch> launches;
  for (int i = 0; i < 6; ++i) {
    const SumCase at{op, i % 2 == 0 ? kSmall : kOther, i % 3 == 0 ? DType::kBf16 : DType::kFp32};
    launches.emplace_back(shape, at, i);
    enqueue(world, launches.back());
  }
  world.synchronize();
  for (const SumLaunch& launch : launches) EXPECT_TRUE(launch.is_right());
}

TEST_P(SumWorld, ARingOfOneCommandIsEnough) {
  World world = cpu_world(shape, {.ring_capacity = 1});
  EXPECT_TRUE(runs_right(world, op, {35, 65, 2}));
}

TEST_P(SumWorld, BytesOnTheLinksAreWhatTheFormulaSaysWithTails) {
  World world = cpu_world(shape);
  constexpr int kLaunches = 3;
  EXPECT_TRUE(runs_right(world, op, kSmall, {.launches = kLaunches}));
  SumLaunch launch(shape, {op, kSmall}, 1);
  const runtime::Plan& plan = plan_of(world.state(), launch);
  const Traffic expected = traffic_of(op, shape, kSmall, DType::kFp32);
  for (int rank = 0; rank < shape.size(); ++rank) {
    EXPECT_EQ(plan.nvlink_bytes(rank), kLaunches * expected.nvlink_bytes);
    EXPECT_EQ(world.network_stats(rank).bytes, kLaunches * expected.network_bytes);
  }
}

TEST_P(SumWorld, WorkspaceIsWhatTheFormulaSays) {
  const World world = cpu_world(shape);
  EXPECT_EQ(workspace_bytes(op, world, kSmall, DType::kBf16), workspace_formula(op, shape, kSmall, DType::kBf16));
}

TEST_P(SumWorld, DestroyingAWorldFinishesWhatWasQueued) {
  SumLaunch launch(shape, {op, kSmall}, 1);
  {
    World world = cpu_world(shape);
    enqueue(world, launch);
  }
  EXPECT_TRUE(launch.is_right());
}

// Up to the five workers every CPU rank has.
TEST_P(SumWorld, TheResultDoesNotDependOnTheSplit) {
  World world = cpu_world(shape);
  for (const auto& [compute, reduce] : {std::pair{0, 0}, std::pair{2, 0}, std::pair{0, 2}, std::pair{1, 1}}) {
    Split split = smallest_split(op, shape);
    split["compute"] += compute;
    split["reduce"] += split["reduce"] > 0 ? reduce : 0;
    EXPECT_TRUE(runs_right(world, op, {35, 65, 2}, {.split = split}));
  }
}

class OneShot : public testing::TestWithParam<WorldShape> {};

INSTANTIATE_TEST_SUITE_P(Worlds, OneShot, testing::ValuesIn(kWorlds), case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(OneShot, TheWorldNeedNotDivideTheRows) {
  World world = cpu_world(GetParam());
  const auto make = [&](int i) {
    const Shape shape{i < 2 ? 0 : 9, 65, 3};
    const SumCase at{SumOp::kGemmArOneShot, shape, DType::kBf16, BOrder::kKN, /*more_rows=*/1 + i};
    return SumLaunch(GetParam(), at, i);
  };
  EXPECT_TRUE(all_run_right<SumLaunch>(world, 4, {}, make));
}

}  // namespace
}  // namespace mk::test

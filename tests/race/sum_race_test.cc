// SPDX-License-Identifier: MIT
// tests/race/sum_race_test.cc — operators that sum over ranks in every world, small enough for ThreadSanitizer.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/sum_launch.h"

namespace mk::test {
namespace {

class SumRace : public testing::TestWithParam<std::tuple<SumOp, WorldShape>> {
 protected:
  const SumOp op = std::get<0>(GetParam());
  const WorldShape shape = std::get<1>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Worlds, SumRace, testing::Combine(testing::ValuesIn(kSumOps), testing::ValuesIn(kWorlds)),
                         joined_names);

TEST_P(SumRace, QueuedLaunchesOfTwoShapesAreExact) {
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.ring_capacity = 4});
  EXPECT_TRUE(runs_right(world, op, {33, 7, 2}, {.launches = 4}));
  EXPECT_TRUE(runs_right(world, op, {5, 65, 2}, {.dtype = DType::kBf16, .launches = 3}));
}

TEST_P(SumRace, SeveralWorkersInEveryRoleAreExact) {
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.trace = true});
  Split split = smallest_split(op, shape);
  split["reduce"] *= 2;
  EXPECT_TRUE(runs_right(world, op, {65, 5, 1}, {.split = split}));
}

}  // namespace
}  // namespace mk::test

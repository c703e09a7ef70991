// SPDX-License-Identifier: MIT
// tests/race/op_race_test.cc — every operator in every world, small enough for ThreadSanitizer.
//
// Signals are atomic and payload is plain, so a release or an acquire that is missing is a data race.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "tests/support/op_launch.h"

namespace mk::test {
namespace {

class OpRace : public testing::TestWithParam<std::tuple<Op, WorldShape>> {
 protected:
  const Op op = std::get<0>(GetParam());
  const WorldShape shape = std::get<1>(GetParam());
  const OpSizes& sizes = row_of(op).sizes();
};

INSTANTIATE_TEST_SUITE_P(Worlds, OpRace, testing::Combine(testing::ValuesIn(kOps), testing::ValuesIn(kWorlds)),
                         joined_names);

TEST_P(OpRace, QueuedLaunchesOfTwoShapesAreExact) {
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.ring_capacity = 4});
  EXPECT_TRUE(runs_right(world, op, sizes.race[0], {.launches = 4}));
  EXPECT_TRUE(runs_right(world, op, sizes.race[1], {.dtype = DType::kBf16, .launches = 3}));
}

class OpRaceSplit : public OpRace {};

INSTANTIATE_TEST_SUITE_P(Worlds, OpRaceSplit, testing::Combine(testing::ValuesIn(kOps), testing::ValuesIn(kWorlds)),
                         joined_names);
INSTANTIATE_TEST_SUITE_P(Small, OpRaceSplit,
                         testing::Combine(testing::ValuesIn(kOps), testing::Values(WorldShape{2, 2})), joined_names);

// One role after the other that communicates has two.
TEST_P(OpRaceSplit, SeveralWorkersInARoleAreExact) {
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.trace = true});
  const Split least = row_of(op).smallest_split(shape);
  std::vector<Split> splits;
  for (const auto& [role, count] : least) {
    if (role == "compute" || count == 0) continue;
    splits.push_back(least);
    splits.back()[role] = 2;
  }
  if (splits.empty()) splits.push_back(least);
  for (const Split& split : splits) EXPECT_TRUE(runs_right(world, op, sizes.race_split, {.split = split}));
}

TEST(OpRaceTrace, CollectingATraceDoesNotRace) {
  World world = World::local(2, 2, DeviceKind::kCpu, {.trace = true});
  for (const Op op : kOps) EXPECT_TRUE(runs_right(world, op, row_of(op).sizes().race[0]));
}

TEST(AgGemmRaceSplit, ThreeWorkersThatCopyAreExact) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  EXPECT_TRUE(runs_right(world, Op::kAgGemm, {97, 5, 3}, {.split = {{"compute", 1}, {"intra", 3}, {"send", 1}}}));
}

}  // namespace
}  // namespace mk::test

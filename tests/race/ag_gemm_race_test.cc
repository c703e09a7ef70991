// SPDX-License-Identifier: MIT
// tests/race/ag_gemm_race_test.cc — the operator in every world, small enough for ThreadSanitizer.
//
// Signals are atomic and payload is plain, so a release or an acquire that is missing is a data race.
#include <gtest/gtest.h>

#include "tests/support/ag_gemm_launch.h"

namespace mk::test {
namespace {

class AgGemmRace : public testing::TestWithParam<WorldShape> {};

INSTANTIATE_TEST_SUITE_P(Worlds, AgGemmRace, testing::ValuesIn(kWorlds), case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(AgGemmRace, QueuedLaunchesOfTwoShapesAreExact) {
  World world = World::local(GetParam().nodes, GetParam().ranks, DeviceKind::kCpu, {.ring_capacity = 4});
  EXPECT_TRUE(runs_right(world, {33, 7, 5}, {.launches = 4}));
  EXPECT_TRUE(runs_right(world, {65, 65, 2}, {.dtype = DType::kBf16, .launches = 3}));
}

TEST(AgGemmRaceSplit, SeveralWorkersInEveryRoleAreExact) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  EXPECT_TRUE(runs_right(world, {97, 5, 3}, {.split = {{"compute", 1}, {"intra", 2}, {"send", 1}}}));
  EXPECT_TRUE(runs_right(world, {97, 5, 3}, {.split = {{"compute", 1}, {"intra", 1}, {"send", 2}}}));
  EXPECT_TRUE(runs_right(world, {97, 5, 3}, {.split = {{"compute", 1}, {"intra", 3}, {"send", 1}}}));
}

TEST(AgGemmRaceTrace, CollectingATraceDoesNotRace) {
  World world = World::local(2, 2, DeviceKind::kCpu, {.trace = true});
  EXPECT_TRUE(runs_right(world, {33, 7, 5}));
}

}  // namespace
}  // namespace mk::test

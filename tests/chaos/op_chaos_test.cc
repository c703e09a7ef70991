// SPDX-License-Identifier: MIT
// tests/chaos/op_chaos_test.cc — every operator over a fabric that reorders, delays and stalls puts.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "tests/support/op_launch.h"
#include "tests/support/weather.h"

namespace mk::test {
namespace {

class OpChaos : public testing::TestWithParam<std::tuple<Op, WorldShape, Weather>> {};

INSTANTIATE_TEST_SUITE_P(Worlds, OpChaos,
                         testing::Combine(testing::ValuesIn(kOps),
                                          testing::Values(WorldShape{2, 1}, WorldShape{2, 3}, WorldShape{3, 2}),
                                          testing::ValuesIn(kWeathers)),
                         joined_names);
INSTANTIATE_TEST_SUITE_P(Larger, OpChaos,
                         testing::Combine(testing::Values(Op::kAgGemm),
                                          testing::Values(WorldShape{2, 8}, WorldShape{3, 4}, WorldShape{4, 2}),
                                          testing::ValuesIn(kWeathers)),
                         joined_names);

TEST_P(OpChaos, EveryQueuedLaunchIsExactForEverySeed) {
  const auto& [op, shape, weather] = GetParam();
  for (uint64_t seed = 0; seed < row_of(op).sizes().chaos_seeds; ++seed) {
    const auto world = chaotic_world(shape, seed, weather.chaos, {.ring_capacity = weather.ring_capacity});
    EXPECT_TRUE(runs_right(*world, op, row_of(op).sizes().chaos, {.seed = seed})) << "seed " << seed;
  }
}

class OpChaosShapes : public testing::TestWithParam<Op> {};

INSTANTIATE_TEST_SUITE_P(All, OpChaosShapes, testing::ValuesIn(kOps), case_name<testing::TestParamInfo<Op>>);

TEST_P(OpChaosShapes, AlternatingShapesAreExactInOneChaoticWorld) {
  const WorldShape shape{2, 2};
  const auto world = chaotic_world(shape, 1, {});
  std::vector<OpLaunch> launches;
  for (int i = 0; i < 8; ++i) {
    const OpCase at{i % 2 == 0 ? Shape{65, 7, 3} : Shape{33, 66, 2}, DType::kFp16};
    launches.emplace_back(GetParam(), shape, at, i);
    enqueue(*world, launches.back());
  }
  finish(*world);
  for (const OpLaunch& launch : launches) EXPECT_TRUE(launch.is_right());
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/chaos/sum_chaos_test.cc — operators that sum over ranks, over a fabric that reorders, delays and stalls puts.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/sum_launch.h"
#include "tests/support/weather.h"

namespace mk::test {
namespace {

class SumChaos : public testing::TestWithParam<std::tuple<SumOp, WorldShape, Weather>> {};

INSTANTIATE_TEST_SUITE_P(Worlds, SumChaos,
                         testing::Combine(testing::ValuesIn(kSumOps),
                                          testing::Values(WorldShape{2, 1}, WorldShape{2, 3}, WorldShape{3, 2}),
                                          testing::ValuesIn(kWeathers)),
                         joined_names);

TEST_P(SumChaos, EveryQueuedLaunchIsExactForEverySeed) {
  constexpr uint64_t kSeeds = 2;
  const auto& [op, shape, weather] = GetParam();
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto world = chaotic_world(shape, seed, weather.chaos, {.ring_capacity = weather.ring_capacity});
    EXPECT_TRUE(runs_right(*world, op, {67, 3, 2}, {.seed = seed})) << "seed " << seed;
  }
}

}  // namespace
}  // namespace mk::test

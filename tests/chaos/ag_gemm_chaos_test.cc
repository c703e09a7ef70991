// SPDX-License-Identifier: MIT
// tests/chaos/ag_gemm_chaos_test.cc — the operator over a fabric that reorders, delays and stalls puts.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/ag_gemm_launch.h"
#include "tests/support/weather.h"

namespace mk::test {
namespace {

using WorldAndWeather = std::tuple<WorldShape, Weather>;

class AgGemmChaos : public testing::TestWithParam<WorldAndWeather> {};

std::string world_and_weather(const testing::TestParamInfo<WorldAndWeather>& info) {
  return name_of(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Worlds, AgGemmChaos,
                         testing::Combine(testing::ValuesIn(worlds_with_nodes()), testing::ValuesIn(kWeathers)),
                         world_and_weather);

TEST_P(AgGemmChaos, EveryQueuedLaunchIsExactForEverySeed) {
  constexpr uint64_t kSeeds = 3;
  const auto& [shape, weather] = GetParam();
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto world = chaotic_world(shape, seed, weather.chaos, {.ring_capacity = weather.ring_capacity});
    EXPECT_TRUE(runs_right(*world, {97, 3, 5}, {.seed = seed})) << "seed " << seed;
  }
}

TEST(AgGemmChaosShapes, AlternatingShapesAreExactInOneChaoticWorld) {
  const WorldShape shape{2, 2};
  const auto world = chaotic_world(shape, 1, {});
  std::vector<AgGemmLaunch> launches;
  for (int i = 0; i < 8; ++i) {
    launches.emplace_back(shape, i % 2 == 0 ? Shape{65, 7, 3} : Shape{33, 66, 2}, DType::kFp16, i);
    enqueue(*world, launches.back());
  }
  finish(*world);
  for (const AgGemmLaunch& launch : launches) EXPECT_TRUE(launch.is_right());
}

}  // namespace
}  // namespace mk::test

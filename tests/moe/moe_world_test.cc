// SPDX-License-Identifier: MIT
// tests/moe/moe_world_test.cc — moe_dispatch_gemm where the network is chaotic, a rank is missing, or others share the
// World.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <tuple>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/moe_launch.h"
#include "tests/support/op_launch.h"
#include "tests/support/weather.h"

namespace mk::test {
namespace {

class MoeChaos : public testing::TestWithParam<std::tuple<WorldShape, Weather>> {};
INSTANTIATE_TEST_SUITE_P(Worlds, MoeChaos,
                         testing::Combine(testing::Values(WorldShape{2, 1}, WorldShape{2, 3}, WorldShape{3, 2}),
                                          testing::ValuesIn(kWeathers)),
                         joined_names);

TEST_P(MoeChaos, EveryQueuedLaunchIsRightForEverySeed) {
  const auto& [shape, weather] = GetParam();
  const moe::Problem problem = moe_problem(shape, 2, 2, 40);
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const auto world = chaotic_world(shape, seed, weather.chaos, {.ring_capacity = weather.ring_capacity});
    std::vector<std::unique_ptr<MoeLaunch>> queued;
    for (int launch = 0; launch < 6; ++launch) {
      const Routing routing = kRoutings[(seed + launch) % std::size(kRoutings)];
      queued.push_back(
          std::make_unique<MoeLaunch>(world->members(), MoeLaunchData(problem, routing, seed * 10 + launch)));
    }
    for (auto& launch : queued) launch->enqueue(*world);
    world->synchronize();
    for (const auto& launch : queued) ASSERT_TRUE(launch->is_right()) << "seed " << seed;
  }
}

class MoeMissingRank : public testing::TestWithParam<WorldShape> {};
INSTANTIATE_TEST_SUITE_P(Worlds, MoeMissingRank, testing::Values(WorldShape{1, 2}, WorldShape{2, 1}, WorldShape{2, 3}),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(MoeMissingRank, IsNamedInTimeAndANewWorldWorks) {
  const WorldShape shape = GetParam();
  const moe::Problem problem = moe_problem(shape, 2, 2, 10);
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.timeout_ms = 1500});
  MoeLaunch launch(world, MoeLaunchData(problem, Routing::kUniform, 1));
  const auto began = std::chrono::steady_clock::now();
  launch.enqueue(world.state(), shape.size() - 1);
  const std::string counted = "counted[rank " + std::to_string(shape.size() - 1) + "]";
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {" for " + counted, "launch 1"}, [&] { world.synchronize(); }));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  EXPECT_TRUE(world.failed());
  World another = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
  MoeLaunch again(another, MoeLaunchData(problem, Routing::kUniform, 1));
  again.enqueue(another);
  another.synchronize();
  EXPECT_TRUE(again.is_right());
}

// Plans never share signals: another operator, and another shape, may come between two launches.
TEST(MoeBesideOthers, LaunchesOfOtherOperatorsComeBetween) {
  const WorldShape shape{2, 2};
  World world = World::local(2, 2, DeviceKind::kCpu);
  const moe::Problem small = moe_problem(shape, 1, 2, 9);
  const moe::Problem large = moe_problem(shape, 3, 3, 30);
  std::vector<std::unique_ptr<MoeLaunch>> queued;
  for (int i = 0; i < 6; ++i) {
    queued.push_back(std::make_unique<MoeLaunch>(world, MoeLaunchData(i % 2 == 0 ? small : large, Routing::kZipf, i)));
  }
  OpLaunch gather(Op::kAgGemm, shape, {{33, 65, 3}, DType::kFp32});
  for (int i = 0; i < 6; ++i) {
    queued[i]->enqueue(world);
    if (i == 2) enqueue(world.state(), gather);
  }
  world.synchronize();
  for (const auto& launch : queued) EXPECT_TRUE(launch->is_right());
  EXPECT_TRUE(gather.is_right());
}

TEST(MoeOverTcp, IsRight) {
  Options options;
  options.net = "tcp";
  World world = World::local(2, 2, DeviceKind::kCpu, options);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    MoeLaunch launch(world, MoeLaunchData(moe_problem({2, 2}, 2, 2, 50), Routing::kUniform, seed));
    launch.enqueue(world);
    world.synchronize();
    EXPECT_TRUE(launch.is_right());
  }
}

// As many ranks as a power of two is not, and as many slots and experts as anybody asked for.
TEST(MoeLimits, TwentyFourRanksSixtyFourSlotsAThousandExperts) {
  World many = World::local(3, 8, DeviceKind::kCpu);
  MoeLaunch wide(many, MoeLaunchData(moe_problem({3, 8}, 1, 20, 5), Routing::kUniform, 1));
  wide.enqueue(many);
  many.synchronize();
  EXPECT_TRUE(wide.is_right());
  World two = World::local(2, 1, DeviceKind::kCpu);
  MoeLaunch deep(two, MoeLaunchData(moe_problem({2, 1}, 512, 64, 40), Routing::kUniform, 2));
  deep.enqueue(two);
  two.synchronize();
  EXPECT_TRUE(deep.is_right());
}

}  // namespace
}  // namespace mk::test

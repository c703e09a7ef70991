// SPDX-License-Identifier: MIT
// tests/process/moe_process_test.cc — mixtures of experts between processes, over every fabric.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/moe_backward_launch.h"
#include "tests/support/moe_launch.h"
#include "tests/support/moe_layer_launch.h"
#include "tests/support/over_fabric.h"

namespace mk::test {
namespace {

// What one rank does; every process makes the data of all ranks.
template <class Launch, class Data, class Problem>
bool runs_right(World& joined, const Problem& problem, int seed) {
  std::vector<std::unique_ptr<Launch>> queued;
  for (int launch = 0; launch < 5; ++launch) {
    const Routing routing = kRoutings[(seed + launch) % std::size(kRoutings)];
    queued.push_back(std::make_unique<Launch>(joined, Data(problem, routing, seed_of(seed, launch))));
  }
  for (auto& launch : queued) launch->enqueue(joined);
  joined.synchronize();
  for (const auto& launch : queued) {
    if (!launch->is_right()) return false;
  }
  return true;
}

bool dispatch_is_right(World& joined, const WorldShape& world, int seed) {
  return runs_right<MoeLaunch, MoeLaunchData>(joined, moe_problem(world, 2, 2, 60, 0, 40, 24), seed);
}
bool layer_is_right(World& joined, const WorldShape& world, int seed) {
  return runs_right<MoeLayerLaunch, MoeLayerData>(joined, layer_problem(world, 2, 2, 60, 0, 40, 24), seed);
}
bool backward_is_right(World& joined, const WorldShape& world, int seed) {
  return runs_right<MoeBackwardLaunch, MoeBackwardData>(joined, layer_problem(world, 2, 2, 30, 0, 40, 24), seed);
}

class MoeOver : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, MoeOver, testing::Values("shm", "tcp", "verbs", "efa"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(MoeOver, EveryDispatchIsRightWithEverySeed) { expect_right_over(GetParam(), dispatch_is_right); }
TEST_P(MoeOver, EveryLayerIsRightWithEverySeed) { expect_right_over(GetParam(), layer_is_right); }
TEST_P(MoeOver, EveryBackwardPassIsRightWithEverySeed) { expect_right_over(GetParam(), backward_is_right); }

}  // namespace
}  // namespace mk::test

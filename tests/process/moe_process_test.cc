// SPDX-License-Identifier: MIT
// tests/process/moe_process_test.cc — moe_dispatch_gemm between processes, over every fabric.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/moe_launch.h"
#include "tests/support/over_fabric.h"

namespace mk::test {
namespace {

// What one rank does; every process makes the data of all ranks.
bool runs_right(World& joined, const WorldShape& world, int seed) {
  const moe::Problem problem = moe_problem(world, 2, 2, 60, 0, 40, 24);
  std::vector<std::unique_ptr<MoeLaunch>> queued;
  for (int launch = 0; launch < 5; ++launch) {
    const Routing routing = kRoutings[(seed + launch) % std::size(kRoutings)];
    queued.push_back(std::make_unique<MoeLaunch>(joined, MoeLaunchData(problem, routing, seed_of(seed, launch))));
  }
  for (auto& launch : queued) launch->enqueue(joined);
  joined.synchronize();
  for (const auto& launch : queued) {
    if (!launch->is_right()) return false;
  }
  return true;
}

class MoeOver : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, MoeOver, testing::Values("shm", "tcp", "verbs", "efa"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(MoeOver, EveryLaunchIsRightWithEverySeed) { expect_right_over(GetParam(), runs_right); }

}  // namespace
}  // namespace mk::test

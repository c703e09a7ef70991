// SPDX-License-Identifier: MIT
// tests/process/moe_process_test.cc — moe_dispatch_gemm between processes, over every fabric.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/support/moe_launch.h"
#include "tests/support/processes.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

// What one rank does; every process makes the data of all ranks.
bool joins_and_runs_right(const std::string& id, int rank, const WorldShape& world, const Options& options,
                          uint64_t seed) {
  World joined = World::join(id, rank, world.nodes, world.ranks, options);
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

TEST_P(MoeOver, EveryLaunchIsRightWithEverySeed) {
  Options options{.timeout_ms = 20'000};
  options.net = GetParam();
  for (const WorldShape& world : {WorldShape{2, 2}, WorldShape{3, 1}}) {
    for (int seed = 1; seed <= 2; ++seed) {
      setenv("MKERNEL_SOFT_NIC", ("seed=" + std::to_string(seed)).c_str(), 1);
      const std::string id = World::unique_id();
      EXPECT_TRUE(
          processes_do(world.size(), [&](int rank) { return joins_and_runs_right(id, rank, world, options, seed); }))
          << name_of(world) << " seed " << seed;
    }
  }
}

}  // namespace
}  // namespace mk::test

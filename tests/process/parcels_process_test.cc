// SPDX-License-Identifier: MIT
// tests/process/parcels_process_test.cc — values, stamps and thresholds between processes, over every fabric.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/parcels_launch.h"
#include "tests/support/processes.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

class ParcelsOver : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, ParcelsOver, testing::Values("shm", "tcp", "verbs", "efa"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ParcelsOver, AllArriveWithEverySeed) {
  Options options{.timeout_ms = 20'000};
  options.net = GetParam();
  for (const WorldShape& world : {WorldShape{2, 2}, WorldShape{3, 1}}) {
    for (int seed = 1; seed <= 2; ++seed) {
      setenv("MKERNEL_SOFT_NIC", ("seed=" + std::to_string(seed)).c_str(), 1);
      const std::string id = World::unique_id();
      EXPECT_TRUE(processes_do(world.size(),
                               [&](int rank) {
                                 World joined = World::join(id, rank, world.nodes, world.ranks, options);
                                 return static_cast<bool>(
                                     parcels_arrive(joined, parcels::layout_of(world, 1, 2, 2), 10, seed));
                               }))
          << name_of(world) << " seed " << seed;
    }
  }
}

}  // namespace
}  // namespace mk::test

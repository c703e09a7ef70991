// SPDX-License-Identifier: MIT
// tests/support/over_fabric.h — worlds of processes over one fabric, with seeds for the NICs in software.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "mkernel/world.h"
#include "tests/support/processes.h"
#include "tests/support/worlds.h"

namespace mk::test {

// Calls run(joined World, its shape, seed) in a process for each rank.
inline void expect_right_over(const std::string& fabric,
                              const std::function<bool(World&, const WorldShape&, int seed)>& run) {
  Options options{.timeout_ms = 20'000};
  options.net = fabric;
  for (const WorldShape& world : {WorldShape{2, 2}, WorldShape{3, 1}}) {
    for (int seed = 1; seed <= 2; ++seed) {
      setenv("MKERNEL_SOFT_NIC", ("seed=" + std::to_string(seed)).c_str(), 1);
      const std::string id = World::unique_id();
      const auto rank_does = [&](int rank) {
        World joined = World::join(id, rank, world.nodes, world.ranks, options);
        return run(joined, world, seed);
      };
      EXPECT_TRUE(processes_do(world.size(), rank_does)) << name_of(world) << " seed " << seed;
    }
  }
}

}  // namespace mk::test

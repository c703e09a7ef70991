// SPDX-License-Identifier: MIT
// tests/transport/placement_rules_test.cc — the rules of placement.h hold on random machines.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/draws.h"
#include "tests/support/machine_shape.h"
#include "transport/assignment.h"

namespace mk::test {
namespace {

const unsigned kMachines = static_cast<unsigned>(draws(2000));

int below(std::mt19937& random, int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); }

// Up to 8 GPUs and 12 NICs, anywhere on a tree of up to two sockets with nested switches.
Topology random_machine(unsigned seed) {
  std::mt19937 random(seed);
  const int sockets = 1 + below(random, 2);
  MachineShape machine(sockets, 1 + below(random, 8));
  std::vector<Branch> branches;
  for (int i = 1 + below(random, 3); i > 0; --i) branches.push_back(machine.host_bridge(below(random, sockets)));
  for (int i = below(random, 4); i > 0; --i) {
    branches.push_back(machine.switch_below(branches[below(random, static_cast<int>(branches.size()))]));
  }
  const auto anywhere = [&] { return branches[below(random, static_cast<int>(branches.size()))]; };
  constexpr double kSpeeds[] = {400, 400, 400, 200, 100, 25};
  int gpus = below(random, 9);
  for (int left = gpus + below(random, 13); left > 0; --left) {
    if (below(random, left) < gpus) {
      machine.gpu(anywhere());
      --gpus;
    } else if (Nic& nic = machine.nic(anywhere(), kSpeeds[below(random, 6)]); below(random, 6) == 0) {
      nic.state = "down";
    }
  }
  return machine.topology();
}

// What serves nobody is told apart here again, not taken from the answer.
std::vector<int> usable_of(const Topology& topology) {
  double fastest = 0;
  for (const Nic& nic : topology.nics) fastest = std::max(fastest, nic.state == "active" ? nic.gbps : 0);
  std::vector<int> usable;
  for (size_t i = 0; i < topology.nics.size(); ++i) {
    const Nic& nic = topology.nics[i];
    if (nic.state == "active" && nic.gbps >= fastest / 8) usable.push_back(static_cast<int>(i));
  }
  return usable;
}

class OnRandomMachines : public testing::Test {
 protected:
  // check(placement, usable NICs, how many GPUs each NIC serves)
  template <class Check>
  void each(const Check& check) {
    for (unsigned seed = 0; seed < kMachines && !HasFailure(); ++seed) {
      SCOPED_TRACE(seed);
      const Placement placement = place(random_machine(seed));
      std::vector<int> loads(placement.topology.nics.size());
      for (const GpuPlacement& gpu : placement.gpus) {
        for (const Rail& rail : gpu.rails) ++loads[rail.nic];
      }
      check(placement, usable_of(placement.topology), loads);
    }
  }

  // check(placement, where the GPU is, its rail, usable NICs, loads)
  template <class Check>
  void each_rail(const Check& check) {
    int rails = 0;
    each([&](const Placement& placement, const std::vector<int>& usable, const std::vector<int>& loads) {
      for (size_t g = 0; g < placement.gpus.size(); ++g) {
        for (const Rail& rail : placement.gpus[g].rails) {
          check(placement.topology, placement.topology.gpus[g].location, rail, usable, loads);
          ++rails;
        }
      }
    });
    EXPECT_GT(rails, kMachines) << "too little was seen";
  }
};

TEST_F(OnRandomMachines, EveryGpuIsServedIfAnyNicIsUsableAndAllHaveEquallyManyRails) {
  each([](const Placement& placement, const std::vector<int>& usable, const std::vector<int>&) {
    for (const GpuPlacement& gpu : placement.gpus) {
      EXPECT_EQ(gpu.rails.empty(), usable.empty());
      EXPECT_EQ(static_cast<int>(gpu.rails.size()), placement.rails_per_gpu);
      EXPECT_FALSE(gpu.cores.empty());
    }
  });
}

TEST_F(OnRandomMachines, OnlyUsableNicsServeAndNoneIsNearer) {
  each_rail(
      [](const Topology& topology, const Location& gpu, const Rail& rail, const std::vector<int>& usable, const auto&) {
        EXPECT_NE(std::find(usable.begin(), usable.end(), rail.nic), usable.end());
        EXPECT_EQ(rail.distance, distance(gpu, topology.nics[rail.nic].location));
        for (const int other : usable) EXPECT_LE(rail.distance, distance(gpu, topology.nics[other].location));
      });
}

TEST_F(OnRandomMachines, NoNicIsSharedWhileOneAtTheSameDistanceIsIdleOrServesTwoLess) {
  each_rail([](const Topology& topology, const Location& gpu, const Rail& rail, const std::vector<int>& usable,
               const std::vector<int>& loads) {
    for (const int other : usable) {
      if (distance(gpu, topology.nics[other].location) != rail.distance) continue;
      EXPECT_LE(loads[rail.nic], loads[other] + 1) << "NIC " << rail.nic << ", NIC " << other;
    }
  });
}

TEST_F(OnRandomMachines, NoFasterNicAtTheSameDistanceIsIdle) {
  each_rail([](const Topology& topology, const Location& gpu, const Rail& rail, const std::vector<int>& usable,
               const std::vector<int>& loads) {
    for (const int other : usable) {
      if (distance(gpu, topology.nics[other].location) != rail.distance || loads[other] > 0) continue;
      EXPECT_LE(topology.nics[other].gbps, topology.nics[rail.nic].gbps) << "NIC " << other;
    }
  });
}

TEST_F(OnRandomMachines, FurtherRailsAreNeverSharedAndAsFastAsTheFirst) {
  int several = 0;
  each([&](const Placement& placement, const std::vector<int>&, const std::vector<int>& loads) {
    if (placement.rails_per_gpu < 2) return;
    ++several;
    for (const GpuPlacement& gpu : placement.gpus) {
      for (const Rail& rail : gpu.rails) {
        EXPECT_EQ(loads[rail.nic], 1);
        EXPECT_EQ(placement.topology.nics[rail.nic].gbps, placement.topology.nics[gpu.rails[0].nic].gbps);
      }
    }
  });
  EXPECT_GT(several, 20) << "too little was seen";
}

TEST_F(OnRandomMachines, TheOrderOfTheInputDoesNotMatter) {
  for (unsigned seed = 0; seed < kMachines; ++seed) {
    Topology topology = random_machine(seed);
    const std::string expected = served(place(topology));
    std::mt19937 random(seed);
    std::shuffle(topology.gpus.begin(), topology.gpus.end(), random);
    std::shuffle(topology.nics.begin(), topology.nics.end(), random);
    std::shuffle(topology.numa_nodes.begin(), topology.numa_nodes.end(), random);
    ASSERT_EQ(served(place(topology)), expected) << seed;
  }
}

TEST(Assignment, CostsAsLittleAsTheBestOfAllPermutations) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const int rows = 1 + below(random, 5);
    const int columns = rows + below(random, 3);
    std::vector<std::vector<int64_t>> cost(rows, std::vector<int64_t>(columns));
    for (auto& row : cost) {
      for (int64_t& one : row) one = below(random, 2) ? below(random, 10) : below(random, 1000);
    }
    std::vector<int> order(columns);
    for (int i = 0; i < columns; ++i) order[i] = i;
    const auto total = [&](const std::vector<int>& of_row) {
      int64_t sum = 0;
      for (int row = 0; row < rows; ++row) sum += cost[row][of_row[row]];
      return sum;
    };
    int64_t least = total(order);
    do least = std::min(least, total(order));
    while (std::next_permutation(order.begin(), order.end()));

    std::vector<int> taken = assign(cost);
    EXPECT_EQ(total(taken), least) << seed;
    std::sort(taken.begin(), taken.end());
    EXPECT_EQ(std::adjacent_find(taken.begin(), taken.end()), taken.end()) << "a column was given twice";
  }
}

}  // namespace
}  // namespace mk::test

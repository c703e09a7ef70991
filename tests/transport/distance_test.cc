// SPDX-License-Identifier: MIT
// tests/transport/distance_test.cc — how far two devices are from each other.
#include <gtest/gtest.h>

#include "transport/topology.h"

namespace mk::test {
namespace {

struct Pair {
  Location a;
  Location b;
  Distance distance;
};

const Pair kPairs[] = {
    {{"", 0, {"h", "r", "u", "d0"}}, {"", 0, {"h", "r", "u", "d1"}}, Distance::kSwitch},
    {{"", 0, {"h", "r"}}, {"", 0, {"h", "r"}}, Distance::kSwitch},  // two functions of one card
    {{"", 0, {"h", "r", "u", "d0", "v", "e"}}, {"", 0, {"h", "r", "u", "d1"}}, Distance::kSwitches},
    {{"", 0, {"h", "r0"}}, {"", 0, {"h", "r1"}}, Distance::kHostBridge},
    {{"", 0, {"h"}}, {"", 0, {"h"}}, Distance::kHostBridge},  // on the root bus, as in virtual machines
    {{"", -1, {"h"}}, {"", -1, {"h", "r"}}, Distance::kHostBridge},
    {{"", 0, {"h0", "r"}}, {"", 0, {"h1", "r"}}, Distance::kNumaNode},
    {{"", 0, {}}, {"", 0, {}}, Distance::kNumaNode},
    {{"", 0, {"h0"}}, {"", 1, {"h1"}}, Distance::kMachine},
    {{"", -1, {"h0"}}, {"", -1, {"h1"}}, Distance::kMachine},  // not known is not the same
    {{"", -1, {}}, {"", -1, {}}, Distance::kMachine},
};

TEST(Distance, IsThatOfTheLowestBridgeInCommon) {
  for (const Pair& pair : kPairs) {
    EXPECT_EQ(distance(pair.a, pair.b), pair.distance) << &pair - kPairs;
    EXPECT_EQ(distance(pair.b, pair.a), pair.distance) << &pair - kPairs << ", the other way round";
  }
}

TEST(Topology, NamesAreOrderedAsPeopleCount) {
  Topology topology;
  for (const char* device : {"mlx5_10", "mlx5_9", "rxe0"}) topology.nics.push_back({.device = device});
  topology.nics.push_back({.location = {.address = "0000:99:00.0"}, .device = "mlx5_11"});
  sort_by_address(topology);
  std::string order;
  for (const Nic& nic : topology.nics) order += nic.device + " ";
  EXPECT_EQ(order, "mlx5_11 rxe0 mlx5_9 mlx5_10 ");
}

}  // namespace
}  // namespace mk::test

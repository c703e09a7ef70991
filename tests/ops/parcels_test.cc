// SPDX-License-Identifier: MIT
// tests/ops/parcels_test.cc — an operator with values, stamps, thresholds and three roles that put, on CPU threads.
#include <gtest/gtest.h>

#include "tests/support/parcels_launch.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

class Parcels : public testing::TestWithParam<WorldShape> {};
INSTANTIATE_TEST_SUITE_P(Worlds, Parcels, testing::ValuesIn(kWorlds),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(Parcels, AllArriveLaunchAfterLaunch) {
  for (const auto& [count, send, receive] : {std::tuple{1, 1, 1}, std::tuple{2, 1, 3}, std::tuple{1, 3, 2}}) {
    World world = World::local(GetParam().nodes, GetParam().ranks, DeviceKind::kCpu, {.ring_capacity = 4});
    EXPECT_TRUE(parcels_arrive(world, parcels::layout_of(GetParam(), count, send, receive), 12, 7));
  }
}

TEST(ParcelsOverTcp, AllArrive) {
  Options options;
  options.net = "tcp";
  World world = World::local(2, 2, DeviceKind::kCpu, options);
  EXPECT_TRUE(parcels_arrive(world, parcels::layout_of({2, 2}, 1, 2, 2), 20, 11));
}

}  // namespace
}  // namespace mk::test

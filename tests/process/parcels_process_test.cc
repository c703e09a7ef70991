// SPDX-License-Identifier: MIT
// tests/process/parcels_process_test.cc — values, stamps and thresholds between processes, over every fabric.
#include <gtest/gtest.h>

#include "tests/support/over_fabric.h"
#include "tests/support/parcels_launch.h"

namespace mk::test {
namespace {

class ParcelsOver : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, ParcelsOver, testing::Values("shm", "tcp", "verbs", "efa"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ParcelsOver, AllArriveWithEverySeed) {
  expect_right_over(GetParam(), [](World& joined, const WorldShape& world, int seed) {
    return static_cast<bool>(parcels_arrive(joined, parcels::layout_of(world, 1, 2, 2), 10, seed));
  });
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/tools/batches_test.cc — how many launches are in memory at once.
#include "tools/batches.h"

#include <gtest/gtest.h>

#include <limits>

namespace mk::test {
namespace {

using tools::launches_per_batch;
using tools::LaunchMemory;

TEST(Batches, LaunchesThatFitAreOneBatch) {
  EXPECT_EQ(launches_per_batch(1, {.per_launch = 10}, 10), 1);
  EXPECT_EQ(launches_per_batch(5, {.per_launch = 10, .once = 50}, 100), 5);
}

TEST(Batches, OneLaunchThatDoesNotFitIsNone) {
  EXPECT_EQ(launches_per_batch(1, {.per_launch = 11}, 10), 0);
  EXPECT_EQ(launches_per_batch(3, {.per_launch = 10, .once = 91}, 100), 0);
  EXPECT_EQ(launches_per_batch(3, {.per_launch = 10, .once = 1e30}, 100), 0);
  EXPECT_EQ(launches_per_batch(3, {.per_launch = std::numeric_limits<double>::quiet_NaN()}, 100), 0);
}

// Of seven where six fit, the second batch would be of one.
TEST(Batches, AreAsEqualAsTheyCanBe) {
  EXPECT_EQ(launches_per_batch(7, {.per_launch = 10}, 60), 4);
  EXPECT_EQ(launches_per_batch(300, {.per_launch = 66.0 / 300}, 60), 150);
}

TEST(Batches, AreBoundedWhereLaunchesTakeNothing) {
  EXPECT_EQ(launches_per_batch(1 << 20, {}, 0), tools::kMostInBatch);
  EXPECT_LE(launches_per_batch(std::numeric_limits<int>::max(), {.per_launch = 1}, 1e300), tools::kMostInBatch);
}

TEST(Batches, FitAndAreNoMoreThanTheyNeedBe) {
  constexpr LaunchMemory kMemory{.per_launch = 7, .once = 5};
  for (int limit = 12; limit < 100; ++limit) {
    for (int launches = 1; launches < 60; ++launches) {
      const int batch = launches_per_batch(launches, kMemory, limit);
      ASSERT_GE(batch, 1);
      EXPECT_LE(batch, launches);
      EXPECT_LE(batch * kMemory.per_launch + kMemory.once, limit);
      const int fit = (limit - 5) / 7;
      EXPECT_EQ((launches + batch - 1) / batch, (launches + fit - 1) / fit) << limit << " " << launches;
    }
  }
}

}  // namespace
}  // namespace mk::test

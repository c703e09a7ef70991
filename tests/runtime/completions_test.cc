// SPDX-License-Identifier: MIT
// tests/runtime/completions_test.cc — whatever the order of completions, none is told before those before it.
#include "runtime/completions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace mk::test {
namespace {

TEST(Completions, OfPutsInOrderAreToldAtOnce) {
  runtime::Completions completions;
  for (uint64_t i = 0; i < 1000; ++i) {
    completions.put(1);
    EXPECT_EQ(completions.all_below(), i);
    completions.complete(i);
    EXPECT_EQ(completions.all_below(), i + 1);
  }
}

TEST(Completions, OfJoinedCommandsAreToldTogether) {
  runtime::Completions completions;
  completions.put(3);
  completions.put(2);
  completions.complete(3);
  EXPECT_EQ(completions.all_below(), 0u);
  completions.complete(0);
  EXPECT_EQ(completions.all_below(), 5u);
}

TEST(Completions, AreKeptWhileOneBeforeThemIsMissingHoweverManyTheyAre) {
  constexpr uint64_t kMany = 10'000;
  runtime::Completions completions;
  for (uint64_t i = 0; i < kMany; ++i) completions.put(1);
  for (uint64_t i = kMany - 1; i > 0; --i) completions.complete(i);
  EXPECT_EQ(completions.all_below(), 0u);
  completions.complete(0);
  EXPECT_EQ(completions.all_below(), kMany);
}

TEST(Completions, OfNoPutUnderWayChangeNothing) {
  runtime::Completions completions;
  completions.complete(0);
  EXPECT_EQ(completions.all_below(), 0u);
  completions.put(1);
  completions.put(1);
  completions.complete(0);
  completions.complete(0);
  completions.complete(2);
  EXPECT_EQ(completions.all_below(), 1u);
}

// Against the sets they replace: every command that is complete, and the first that is not.
TEST(Completions, AgreeWithASetInAnyOrder) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    runtime::Completions completions;
    struct Put {
      uint64_t ticket;
      uint32_t num;
    };
    std::vector<Put> under_way;
    std::set<uint64_t> complete;
    uint64_t next = 0, first = 0;
    for (int step = 0; step < 2000; ++step) {
      if (under_way.empty() || random() % 100 < 52) {
        const uint32_t num = random() % 4 == 0 ? 1 + random() % 16 : 1;
        completions.put(num);
        under_way.push_back({next, num});
        next += num;
      } else {
        std::swap(under_way[random() % under_way.size()], under_way.back());
        const Put put = under_way.back();
        under_way.pop_back();
        completions.complete(put.ticket);
        for (uint32_t i = 0; i < put.num; ++i) complete.insert(put.ticket + i);
      }
      while (complete.erase(first) > 0) ++first;
      ASSERT_EQ(completions.all_below(), first) << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace mk::test

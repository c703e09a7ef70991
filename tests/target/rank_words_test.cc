// SPDX-License-Identifier: MIT
// tests/target/rank_words_test.cc — who of a GPU rank's workers waits for the puts of its role.
#include "target/sm90/rank_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace mk::sm90 {
namespace {

// Workers of three roles that put settle in any order, launch after launch; `words` says how a role finds its counter.
template <class Words>
bool one_of_each_role_waits(uint64_t seed, const Words& words) {
  constexpr std::array<int, 3> kCounts = {2, 5, 3};
  std::mt19937_64 random(seed);
  std::array<uint64_t, kTargetWords> memory{};
  RankView view;
  view.target_words = memory.data();
  for (uint64_t epoch = 1; epoch <= 4; ++epoch) {
    std::vector<int> settling;  // roles of the workers, in the order in which they settle
    for (int role = 0; role < 3; ++role) settling.insert(settling.end(), kCounts[role], role);
    std::shuffle(settling.begin(), settling.end(), random);
    std::array<int, 3> waiting{};
    std::array<int, 3> settled{};
    for (const int role : settling) {
      const bool waits = ++*words(view, role) == settlers_after(epoch, kCounts[role]);
      ++settled[role];
      if (waits && settled[role] != kCounts[role]) return false;  // puts of workers that come later are not waited for
      waiting[role] += waits;
    }
    if (waiting != std::array{1, 1, 1}) return false;
  }
  return true;
}

TEST(RankWords, TheLastWorkerOfEachRoleWaitsForItsPuts) {
  for (uint64_t seed = 1; seed <= 200; ++seed) EXPECT_TRUE(one_of_each_role_waits(seed, settlers_of)) << seed;
}

// What settling was once: nobody of some role waits, or somebody too early.
TEST(RankWords, WithOneCounterForAllRolesSomeRoleDoesNotWait) {
  const auto shared = [](const RankView& view, int) { return view.target_words; };
  for (uint64_t seed = 1; seed <= 200; ++seed) EXPECT_FALSE(one_of_each_role_waits(seed, shared)) << seed;
}

TEST(RankWords, NoTwoPurposesShareAWord) {
  std::array<uint64_t, kTargetWords> memory{};
  RankView view;
  view.target_words = memory.data();
  for (int role = 0; role < kMostRoles; ++role) ++*settlers_of(view, role);
  ++*steps_of(view);
  ++*looked_of(view);
  EXPECT_EQ(std::ranges::count(memory, 1u), kMostRoles + 2);
}

}  // namespace
}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// tests/runtime/team_test.cc — launches of a rank follow each other like kernels on a stream.
#include "runtime/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <vector>

namespace mk::test {
namespace {

using runtime::Team;

TEST(Team, EveryWorkerOfEveryLaunchRunsOnce) {
  constexpr int kLaunches = 50;
  constexpr int kWorkers = 4;
  std::vector<std::vector<int>> runs(kLaunches, std::vector<int>(kWorkers));
  Team team;
  for (int launch = 0; launch < kLaunches; ++launch) {
    team.submit(kWorkers, [&runs, launch](int worker) { ++runs[launch][worker]; });
  }
  team.drain();
  EXPECT_EQ(runs, std::vector<std::vector<int>>(kLaunches, std::vector<int>(kWorkers, 1)));
}

// `last` is plain: only the order of launches keeps its writers and readers apart.
TEST(Team, ALaunchBeginsOnlyWhenTheOneBeforeHasEnded) {
  constexpr int kLaunches = 200;
  Team team;
  std::vector<int> last(4);
  std::atomic<int> overlaps = 0;
  for (int launch = 1; launch <= kLaunches; ++launch) {
    team.submit(static_cast<int>(last.size()), [&, launch](int worker) {
      const int before = last[(worker + launch) % last.size()];  // a slot only this worker uses in this launch
      if (before != launch - 1) ++overlaps;
      last[(worker + launch) % last.size()] = launch;
    });
  }
  team.drain();
  EXPECT_EQ(overlaps, 0);
}

TEST(Team, WorkersOfALaunchRunAtTheSameTime) {
  constexpr int kWorkers = 6;
  std::latch all_here(kWorkers);
  Team team;
  team.submit(kWorkers, [&](int) { all_here.arrive_and_wait(); });
  team.drain();
  EXPECT_TRUE(all_here.try_wait());
}

TEST(Team, MayGrowAndShrinkFromLaunchToLaunch) {
  std::vector<int> sizes = {1, 5, 2, 8, 1, 3};
  std::vector<std::atomic<int>> ran(sizes.size());
  Team team;
  for (size_t i = 0; i < sizes.size(); ++i) {
    team.submit(sizes[i], [&ran, i](int) { ++ran[i]; });
  }
  team.drain();
  for (size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(ran[i], sizes[i]);
}

TEST(Team, DrainWaitsForAllThatWasSubmitted) {
  Team team;
  int finished = 0;
  for (int round = 1; round <= 20; ++round) {
    team.submit(1, [&](int) { ++finished; });
    team.drain();
    ASSERT_EQ(finished, round);
  }
}

TEST(Team, DestructionFinishesWhatWasSubmitted) {
  int finished = 0;
  {
    Team team;
    for (int i = 0; i < 20; ++i) team.submit(1, [&](int) { ++finished; });
  }
  EXPECT_EQ(finished, 20);
}

TEST(Team, AnIdleTeamDrainsAtOnce) {
  Team team;
  team.drain();
  SUCCEED();
}

}  // namespace
}  // namespace mk::test

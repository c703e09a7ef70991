// SPDX-License-Identifier: MIT
// tests/core/rank_view_test.cc — the epoch that workers advance by leaving.
#include "core/rank_view.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/bare_plan.h"

namespace mk::test {
namespace {

TEST(RankView, TheEpochIsOneMoreThanTheLaunchesAllWorkersHaveLeft) {
  RankView view;
  for (const int workers : {1, 3, 8}) {
    view.workers = workers;
    for (uint64_t exits = 0; exits < 40; ++exits) {
      EXPECT_EQ(view.epoch_after(exits), 1 + exits / workers);
    }
  }
}

// Workers come and go one after the other, the worst case: those that left are not counted as a launch.
TEST(Epoch, IsTheSameForEveryWorkerOfALaunchHoweverLateItBegins) {
  constexpr int kWorkers = 5;
  BarePlan plan({.workers = kWorkers});
  for (uint64_t launch = 1; launch <= 4; ++launch) {
    for (int worker = 0; worker < kWorkers; ++worker) EXPECT_EQ(plan.machine(0, worker).epoch(), launch);
  }
}

TEST(Epoch, DoesNotAdvanceWhileOneWorkerStays) {
  constexpr int kWorkers = 3;
  BarePlan plan({.workers = kWorkers});
  const cpu::CpuMachine stays = plan.machine(0, 0);
  EXPECT_EQ(plan.machine(0, 1).epoch(), 1u);
  EXPECT_EQ(plan.machine(0, 2).epoch(), 1u);
  EXPECT_EQ(plan.view(0).epoch_after(HostAtomics::load_acquire(plan.view(0).exits)), 1u);
}

TEST(Plan, RanksOfANodeSeeEachOthersWindowsAndOtherNodesTheirOwn) {
  const WorldShape world{2, 3};
  BarePlan plan({.world = world});
  for (int rank = 0; rank < world.size(); ++rank) *plan.window<int>(rank) = 100 + rank;
  for (int rank = 0; rank < world.size(); ++rank) {
    for (int local = 0; local < world.ranks; ++local) {
      const int peer = world.rank_at(world.node_of(rank), local);
      const std::byte* seen = plan.view(rank).windows.resolve(world, Place{kFirstOperatorWindow, peer, 0});
      EXPECT_EQ(*reinterpret_cast<const int*>(seen), 100 + peer);
    }
  }
}

}  // namespace
}  // namespace mk::test

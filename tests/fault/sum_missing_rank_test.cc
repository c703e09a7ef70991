// SPDX-License-Identifier: MIT
// tests/fault/sum_missing_rank_test.cc — a sum over ranks of which one never launches: all others report in time.
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <tuple>

#include "tests/support/expect_error.h"
#include "tests/support/sum_launch.h"

namespace mk::test {
namespace {

constexpr int64_t kDeadlineMs = 200;
constexpr Shape kShape{33, 65, 3};

struct Absence {
  WorldShape world;
  int missing;
};

std::string name_of(const Absence& absence) {
  return name_of(absence.world) + "_without_" + std::to_string(absence.missing);
}

class SumMissingRank : public testing::TestWithParam<std::tuple<SumOp, Absence>> {
 protected:
  const SumOp op = std::get<0>(GetParam());
  const WorldShape shape = std::get<1>(GetParam()).world;
  const int missing = std::get<1>(GetParam()).missing;
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.timeout_ms = kDeadlineMs});
  SumLaunch launch{shape, {op, kShape}, 1};

  void launch_all_but_one() {
    const runtime::Plan& plan = plan_of(world.state(), launch);
    for (int rank = 0; rank < shape.size(); ++rank) {
      if (rank != missing) launch_rank(world.state(), plan, launch, rank);
    }
  }
  testing::AssertionResult times_out(std::initializer_list<std::string_view> words) {
    return throws(ErrorCode::kTimeout, words, [&] { world.synchronize(); });
  }
};

INSTANTIATE_TEST_SUITE_P(Worlds, SumMissingRank,
                         testing::Combine(testing::ValuesIn(kSumOps),
                                          testing::Values(Absence{{1, 2}, 0}, Absence{{2, 1}, 1}, Absence{{2, 3}, 4},
                                                          Absence{{3, 4}, 0})),
                         joined_names);

TEST_P(SumMissingRank, SynchronizeThrowsInTimeAndNamesWhoWaitedForWhat) {
  const auto begin = std::chrono::steady_clock::now();
  launch_all_but_one();
  EXPECT_TRUE(times_out({"rank ", "waited 200 ms for ", "[", "to reach ", "launch 1"}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_P(SumMissingRank, EveryOtherRankLeavesARecordOfASignalItLacked) {
  launch_all_but_one();
  EXPECT_TRUE(times_out({}));
  std::set<int> reported;
  for (const FaultRecord& fault : world.state().faults()) {
    reported.insert(fault.rank);
    EXPECT_NE(fault.rank, missing);
    EXPECT_LT(fault.seen, fault.wanted == 0 ? 1 : fault.wanted);  // nothing is wanted by who never began
  }
  EXPECT_EQ(static_cast<int>(reported.size()), shape.size() - 1);
}

TEST_P(SumMissingRank, AFailedWorldTakesNoMoreLaunchesAndANewOneWorks) {
  launch_all_but_one();
  EXPECT_TRUE(times_out({}));
  EXPECT_TRUE(world.failed());
  SumLaunch again(shape, {op, kShape}, 2);
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"World has failed"}, [&] { enqueue(world, again); }));
  for (int rank = 0; rank < shape.size(); ++rank) EXPECT_TRUE(again.is_untouched(rank));
  World beside = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
  EXPECT_TRUE(runs_right(beside, op, kShape, {.launches = 2}));
}

}  // namespace
}  // namespace mk::test

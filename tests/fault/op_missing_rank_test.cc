// SPDX-License-Identifier: MIT
// tests/fault/op_missing_rank_test.cc — a rank that never launches: every other rank reports in time, none hangs.
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <tuple>

#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "tests/support/expect_error.h"
#include "tests/support/op_launch.h"

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

class MissingRank : public testing::TestWithParam<std::tuple<Op, Absence>> {
 protected:
  const Op op = std::get<0>(GetParam());
  const WorldShape shape = std::get<1>(GetParam()).world;
  const int missing = std::get<1>(GetParam()).missing;
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.timeout_ms = kDeadlineMs});
  OpLaunch launch{op, shape, {kShape}};

  const runtime::Plan& plan() { return plan_of(world.state(), launch); }
  void launch_all_but_one() {
    for (int rank = 0; rank < shape.size(); ++rank) {
      if (rank != missing) launch_rank(world.state(), plan(), launch, rank);
    }
  }
  testing::AssertionResult times_out(std::initializer_list<std::string_view> words) {
    return throws(ErrorCode::kTimeout, words, [&] { world.synchronize(); });
  }
};

INSTANTIATE_TEST_SUITE_P(Worlds, MissingRank,
                         testing::Combine(testing::ValuesIn(kOps),
                                          testing::Values(Absence{{1, 2}, 0}, Absence{{2, 1}, 1}, Absence{{2, 3}, 4},
                                                          Absence{{3, 4}, 0})),
                         joined_names);
INSTANTIATE_TEST_SUITE_P(More, MissingRank,
                         testing::Combine(testing::Values(Op::kAgGemm),
                                          testing::Values(Absence{{1, 8}, 5}, Absence{{4, 2}, 7})),
                         joined_names);

TEST_P(MissingRank, SynchronizeThrowsInTimeAndNamesWhoWaitedForWhat) {
  const auto begin = std::chrono::steady_clock::now();
  launch_all_but_one();
  EXPECT_TRUE(times_out({"rank ", "waited 200 ms for ", "[", "to reach ", "launch 1"}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_P(MissingRank, EveryOtherRankLeavesARecordOfASignalItLacked) {
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

TEST_P(MissingRank, AFailedWorldSaysSoAndTakesNoMoreLaunchesAndNewOnesWork) {
  EXPECT_FALSE(world.failed());
  launch_all_but_one();
  EXPECT_TRUE(times_out({}));
  EXPECT_TRUE(world.failed());
  OpLaunch again(op, shape, {kShape}, 2);
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"World has failed"}, [&] { enqueue(world, again); }));
  for (int rank = 0; rank < shape.size(); ++rank) EXPECT_TRUE(again.is_untouched(rank));
  EXPECT_TRUE(times_out({"waited 200 ms"})) << "the first reason is kept";
  World beside = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
  EXPECT_TRUE(runs_right(beside, op, kShape));
  world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
  EXPECT_TRUE(runs_right(world, op, kShape));
}

// What the World does, whoever waits in it.
class MissingRankOfOne : public MissingRank {};

INSTANTIATE_TEST_SUITE_P(Worlds, MissingRankOfOne,
                         testing::Combine(testing::Values(Op::kAgGemm),
                                          testing::Values(Absence{{1, 2}, 0}, Absence{{1, 8}, 5}, Absence{{2, 1}, 1},
                                                          Absence{{2, 3}, 4}, Absence{{3, 4}, 0}, Absence{{4, 2}, 7})),
                         joined_names);

TEST_P(MissingRankOfOne, TheMessageNamesTheWaitThatTimedOutThoughLaunchesWereQueuedBehindIt) {
  launch_all_but_one();
  launch_all_but_one();
  launch_all_but_one();
  EXPECT_TRUE(times_out({"waited 200 ms", "launch 1"}));
}

TEST_P(MissingRankOfOne, AWorldMayBeDestroyedWhileItsRanksStillWait) {
  const auto begin = std::chrono::steady_clock::now();
  launch_all_but_one();
  world = World::local(1, 1, DeviceKind::kCpu);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

// Of AllGather+GEMM it is known which signals those are, and that nothing was paid into them.
TEST_P(MissingRankOfOne, IsToldBySignalsThatNobodyPaid) {
  launch_all_but_one();
  const auto ended = times_out({" (it holds 0)"});
  EXPECT_TRUE(ended);
  const std::string said = ended.message();
  const auto& layout = plan().layout<ag_gemm_op::Layout>();
  const bool names_a_part = layout.passes_on() && said.find("landed[node ") != said.npos;
  EXPECT_TRUE(names_a_part || said.find("[rank ") != said.npos) << said;
  for (const FaultRecord& fault : world.state().faults()) {
    if (fault.tile < 0) continue;  // stopped before it began, or while its puts went out
    EXPECT_EQ(fault.seen, 0u);
    const bool is_arrived = fault.signal >= layout.arrived(0, 0) && fault.signal < layout.landed(0, {});
    EXPECT_EQ(fault.wanted, is_arrived ? static_cast<unsigned>(layout.parts) : 1u);
    EXPECT_LT(fault.signal, layout.num_signals());
    if (fault.role != ag_gemm_op::Layout::kCompute) continue;
    const Tile tile = ag_gemm_op::tile_at(layout, fault.rank, fault.tile);
    EXPECT_EQ(fault.signal, layout.arrived(tile.source, tile.row_block)) << "tile " << fault.tile;
  }
}

}  // namespace
}  // namespace mk::test

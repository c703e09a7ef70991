// SPDX-License-Identifier: MIT
// tests/fault/missing_rank_test.cc — a rank that never launches: every other rank reports in time, none hangs.
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "ops/ag_gemm/ag_gemm_targets.h"
#include "tests/support/ag_gemm_launch.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

constexpr int64_t kDeadlineMs = 200;
constexpr Shape kShape{33, 65, 3};

std::string name_of_missing(const testing::TestParamInfo<std::tuple<WorldShape, int>>& info) {
  return name_of(std::get<0>(info.param)) + "_without_" + std::to_string(std::get<1>(info.param));
}

class MissingRank : public testing::TestWithParam<std::tuple<WorldShape, int>> {
 protected:
  const WorldShape shape = std::get<0>(GetParam());
  const int missing = std::get<1>(GetParam());
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.timeout_ms = kDeadlineMs});
  AgGemmLaunch launch{shape, kShape, DType::kFp32, 1};

  const runtime::Plan& plan() {
    return ag_gemm_op::plan_for(world.state(), ag_gemm_op::problem_of(shape, world.state().members(), launch.args()),
                                {});
  }
  void launch_all_but_one() {
    const std::vector<AgGemmArgs> args = launch.args();
    for (int rank = 0; rank < shape.size(); ++rank) {
      if (rank != missing) ag_gemm_op::launch_rank(world.state(), plan(), rank, args[rank]);
    }
  }
  testing::AssertionResult times_out(std::initializer_list<std::string_view> words) {
    return throws(ErrorCode::kTimeout, words, [&] { world.synchronize(); });
  }
};

INSTANTIATE_TEST_SUITE_P(Worlds, MissingRank,
                         testing::Values(std::tuple{WorldShape{1, 2}, 0}, std::tuple{WorldShape{1, 8}, 5},
                                         std::tuple{WorldShape{2, 1}, 1}, std::tuple{WorldShape{2, 3}, 4},
                                         std::tuple{WorldShape{3, 4}, 0}, std::tuple{WorldShape{4, 2}, 7}),
                         name_of_missing);

TEST_P(MissingRank, SynchronizeThrowsInTimeAndNamesWhoWaitedForWhat) {
  const auto begin = std::chrono::steady_clock::now();
  launch_all_but_one();
  const auto ended = times_out({"rank ", "waited 200 ms for ", "to reach ", " (it holds 0)", "launch 1"});
  EXPECT_TRUE(ended);
  const std::string said = ended.message();
  const bool names_a_part = plan().layout<ag_gemm_op::Layout>().passes_on() && said.find("landed[node ") != said.npos;
  EXPECT_TRUE(names_a_part || said.find("[rank ") != said.npos) << said;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_P(MissingRank, EveryOtherRankLeavesARecordOfASignalItLacked) {
  launch_all_but_one();
  EXPECT_TRUE(times_out({}));
  const auto& layout = plan().layout<ag_gemm_op::Layout>();
  std::set<int> reported;
  for (const FaultRecord& fault : world.state().faults()) {
    reported.insert(fault.rank);
    EXPECT_NE(fault.rank, missing);
    if (fault.tile < 0) continue;  // stopped before it began, or while its puts went out
    EXPECT_EQ(fault.seen, 0u);
    const bool is_arrived = fault.signal >= layout.arrived(0, 0) && fault.signal < layout.landed(0, {});
    EXPECT_EQ(fault.wanted, is_arrived ? static_cast<unsigned>(layout.parts) : 1u);
    EXPECT_LT(fault.signal, layout.num_signals());
    if (fault.role != ag_gemm_op::Layout::kCompute) continue;
    const Tile tile = ag_gemm_op::tile_at(layout, fault.rank, fault.tile);
    EXPECT_EQ(fault.signal, layout.arrived(tile.source, tile.row_block)) << "tile " << fault.tile;
  }
  EXPECT_EQ(static_cast<int>(reported.size()), shape.size() - 1);
}

TEST_P(MissingRank, TheMessageNamesTheWaitThatTimedOutThoughLaunchesWereQueuedBehindIt) {
  launch_all_but_one();
  launch_all_but_one();
  launch_all_but_one();
  EXPECT_TRUE(times_out({"waited 200 ms", "launch 1"}));
}

TEST_P(MissingRank, AFailedWorldSaysSoAndTakesNoMoreLaunches) {
  EXPECT_FALSE(world.failed());
  launch_all_but_one();
  EXPECT_TRUE(times_out({}));
  EXPECT_TRUE(world.failed());
  AgGemmLaunch again(shape, kShape, DType::kFp32, 2);
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"World has failed"}, [&] { enqueue(world, again); }));
  for (int rank = 0; rank < shape.size(); ++rank) EXPECT_TRUE(again.is_untouched(rank));
  EXPECT_TRUE(times_out({"waited 200 ms"})) << "the first reason is kept";
}

TEST_P(MissingRank, ANewWorldWorksBesideAndAfterTheFailedOne) {
  launch_all_but_one();
  EXPECT_TRUE(times_out({}));
  World beside = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
  EXPECT_TRUE(runs_right(beside, kShape));
  world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
  EXPECT_TRUE(runs_right(world, kShape));
}

TEST_P(MissingRank, AWorldMayBeDestroyedWhileItsRanksStillWait) {
  const auto begin = std::chrono::steady_clock::now();
  launch_all_but_one();
  world = World::local(1, 1, DeviceKind::kCpu);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/order/gemm_rs_trace_test.cc — the order of GEMM+ReduceScatter's tiles as real threads went through it.
#include <gtest/gtest.h>

#include <map>
#include <tuple>
#include <vector>

#include "tests/support/sum_layouts.h"
#include "tests/support/trace_counts.h"

namespace mk::test {
namespace {

constexpr int kLaunches = 3;
constexpr Shape kShape{67, 129, 1};  // three row blocks and three columns of tiles a shard

class RsTrace : public testing::TestWithParam<WorldShape> {
 protected:
  void SetUp() override {
    World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.trace = true});
    ASSERT_TRUE(runs_right(world, SumOp::kGemmRs, kShape, {.launches = kLaunches}));
    records = world.state().trace()->take();
  }

  const WorldShape shape = GetParam();
  const gemm_rs_op::Layout layout = rs_layout(shape, {.shape = kShape});
  std::vector<EventRecord> records;
};

INSTANTIATE_TEST_SUITE_P(Worlds, RsTrace, testing::ValuesIn(kWorlds), case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(RsTrace, EveryTileBeginsAndEndsOnceInEveryLaunch) {
  const TraceCounts expected = in_every_launch(kLaunches, shape, [&](int rank, const auto& note) {
    for (int64_t i = 0; i < layout.num_tiles(); ++i) note(i, gemm_rs_op::tile_at(layout, rank, i).source);
  });
  EXPECT_EQ(counts_of(records, EventKind::kTileBegin), expected);
  EXPECT_EQ(counts_of(records, EventKind::kTileEnd), expected);
}

TEST_P(RsTrace, ANodesSumCrossesTheRailOnceToEachOwner) {
  EXPECT_EQ(counts_of(records, EventKind::kTilePut), in_every_launch(kLaunches, shape, [&](int rank, const auto& note) {
              for (int64_t i = 0; i < layout.num_reduced(); ++i) {
                const int owner = gemm_rs_op::reduced_at(layout, rank, i).source;
                if (owner != rank) note(i, owner);
              }
            }));
}

TEST_P(RsTrace, AnOwnerFinishesItsOwnTilesOnce) {
  if (shape.size() == 1) return;  // compute writes C itself
  EXPECT_EQ(counts_of(records, EventKind::kTileReduced),
            in_every_launch(kLaunches, shape, [&](int rank, const auto& note) {
              for (int64_t i = 0; i < layout.num_reduced(); ++i) {
                if (gemm_rs_op::reduced_at(layout, rank, i).source == rank) note(i, rank);
              }
            }));
}

TEST_P(RsTrace, EveryWorkerTakesItsOwnNodeLast) {
  std::map<std::tuple<uint64_t, int, int>, bool> reached_home;  // by launch, rank, worker
  for (const EventRecord& r : records) {
    if (r.event.kind != EventKind::kTileBegin) continue;
    bool& home = reached_home[{r.epoch, r.rank, r.worker}];
    const bool now = shape.same_node(r.event.peer, r.rank);
    EXPECT_FALSE(home && !now) << "rank " << r.rank << " worker " << r.worker << " tile " << r.event.subject;
    home = now;
  }
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/order/gemm_rs_trace_test.cc — the order of GEMM+ReduceScatter's tiles as real threads went through it.
#include <gtest/gtest.h>

#include <map>
#include <tuple>
#include <vector>

#include "core/event.h"
#include "tests/support/sum_layouts.h"

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

  // How often each (launch, rank, tile, peer) was noted.
  using Counts = std::map<std::tuple<uint64_t, int, int64_t, int>, int>;
  Counts counts_of(EventKind kind) const {
    Counts counts;
    for (const EventRecord& r : records) {
      if (r.event.kind == kind) ++counts[{r.epoch, r.rank, r.event.subject, r.event.peer}];
    }
    return counts;
  }

  // One for each launch, rank and tile of `count` for which owner(rank, number) is not negative.
  template <class Owner>
  Counts once_each(int64_t count, Owner&& owner) const {
    Counts counts;
    for (uint64_t launch = 1; launch <= kLaunches; ++launch) {
      for (int rank = 0; rank < shape.size(); ++rank) {
        for (int64_t number = 0; number < count; ++number) {
          if (const int peer = owner(rank, number); peer >= 0) counts[{launch, rank, number, peer}] = 1;
        }
      }
    }
    return counts;
  }

  const WorldShape shape = GetParam();
  const gemm_rs_op::Layout layout = rs_layout(shape, {.shape = kShape});
  std::vector<EventRecord> records;
};

INSTANTIATE_TEST_SUITE_P(Worlds, RsTrace, testing::ValuesIn(kWorlds), case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(RsTrace, EveryTileBeginsAndEndsOnceInEveryLaunch) {
  const Counts expected = once_each(
      layout.num_tiles(), [&](int rank, int64_t number) { return gemm_rs_op::tile_at(layout, rank, number).source; });
  EXPECT_EQ(counts_of(EventKind::kTileBegin), expected);
  EXPECT_EQ(counts_of(EventKind::kTileEnd), expected);
}

TEST_P(RsTrace, ANodesSumCrossesTheRailOnceToEachOwner) {
  EXPECT_EQ(counts_of(EventKind::kTilePut), once_each(layout.num_reduced(), [&](int rank, int64_t number) {
              const int owner = gemm_rs_op::reduced_at(layout, rank, number).source;
              return owner == rank ? -1 : owner;
            }));
}

TEST_P(RsTrace, AnOwnerFinishesItsOwnTilesOnce) {
  const bool alone = shape.size() == 1;  // compute writes C itself
  EXPECT_EQ(counts_of(EventKind::kTileReduced), once_each(layout.num_reduced(), [&](int rank, int64_t number) {
              return !alone && gemm_rs_op::reduced_at(layout, rank, number).source == rank ? rank : -1;
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

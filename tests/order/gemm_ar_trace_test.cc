// SPDX-License-Identifier: MIT
// tests/order/gemm_ar_trace_test.cc — what real threads did in GEMM+AllReduce.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/sum_layouts.h"
#include "tests/support/trace_counts.h"

namespace mk::test {
namespace {

constexpr int kLaunches = 2;
constexpr Shape kShape{35, 65, 1};

class ArTrace : public testing::TestWithParam<WorldShape> {
 protected:
  std::vector<EventRecord> records_of(SumOp op) const {
    World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.trace = true});
    EXPECT_TRUE(runs_right(world, op, kShape, {.launches = kLaunches}));
    return world.state().trace()->take();
  }

  const WorldShape shape = GetParam();
};

INSTANTIATE_TEST_SUITE_P(Worlds, ArTrace, testing::ValuesIn(kWorlds), case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(ArTrace, EveryRankTakesEveryOtherOwnersTilesOnceFromTheHolderInItsNode) {
  const gemm_ar_op::TwoShotLayout layout = ar_layout(shape, {.shape = kShape});
  EXPECT_EQ(counts_of(records_of(SumOp::kGemmAr), EventKind::kTileTaken),
            in_every_launch(kLaunches, shape, [&](int rank, const auto& note) {
              for (int64_t i = 0; i < layout.num_gathered(); ++i) {
                note(i, layout.holder_of(rank, gemm_ar_op::gathered_at(layout, rank, i).source));
              }
            }));
}

TEST_P(ArTrace, ANodesSumAndAFinishedTileCrossEachRailOnce) {
  const gemm_ar_op::TwoShotLayout layout = ar_layout(shape, {.shape = kShape});
  EXPECT_EQ(counts_of(records_of(SumOp::kGemmAr), EventKind::kTilePut),
            in_every_launch(kLaunches, shape, [&](int rank, const auto& note) {
              for (int64_t i = 0; i < layout.num_reduced(); ++i) {
                const int owner = gemm_rs_op::reduced_at(layout, rank, i).source;
                if (owner != rank) note(i, owner);
                for (int step = 1; owner == rank && step < shape.nodes; ++step)
                  note(i, rail_peer_at(shape, rank, step));
              }
            }));
}

TEST_P(ArTrace, InOneShotEveryRankMakesAndReducesEveryTile) {
  const gemm_ar_op::OneShotLayout layout = one_shot_layout(shape, {.shape = kShape});
  const std::vector<EventRecord> records = records_of(SumOp::kGemmArOneShot);
  const auto every_tile = [&](int peer) {
    return in_every_launch(kLaunches, shape, [&, peer](int rank, const auto& note) {
      for (int64_t i = 0; i < layout.num_tiles(); ++i) note(i, peer < 0 ? rank : peer);
    });
  };
  EXPECT_EQ(counts_of(records, EventKind::kTileEnd), every_tile(0));
  if (shape.size() == 1) return;
  EXPECT_EQ(counts_of(records, EventKind::kTileReduced), every_tile(-1));
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/order/op_trace_test.cc — what real threads did in every operator, and in which order.
#include <gtest/gtest.h>

#include <map>
#include <tuple>
#include <vector>

#include "tests/support/op_launch.h"
#include "tests/support/op_layouts.h"

namespace mk::test {
namespace {

constexpr int kLaunches = 3;

class OpTrace : public testing::TestWithParam<std::tuple<Op, WorldShape>> {
 protected:
  void SetUp() override {
    World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.trace = true});
    ASSERT_TRUE(runs_right(world, op, row_of(op).sizes().trace, {.launches = kLaunches}));
    records = world.state().trace()->take();
  }

  // How often each (launch, rank, subject, peer) was noted.
  using Counts = std::map<std::tuple<uint64_t, int, int64_t, int>, int>;

  Counts noted(EventKind kind) const {
    Counts counts;
    for (const EventRecord& r : records) {
      if (r.event.kind == kind) ++counts[{r.epoch, r.rank, r.event.subject, r.event.peer}];
    }
    return counts;
  }
  Counts expected(EventKind kind) const {
    Counts counts;
    for (int rank = 0; rank < shape.size(); ++rank) {
      for (const Noted& note : layout->notes(kind, rank)) {
        for (uint64_t launch = 1; launch <= kLaunches; ++launch) {
          counts[{launch, rank, note.subject, note.peer}] += note.times;
        }
      }
    }
    return counts;
  }

  const Op op = std::get<0>(GetParam());
  const WorldShape shape = std::get<1>(GetParam());
  const std::unique_ptr<AnyLayout> layout =
      row_of(op).layout(shape, {.shape = row_of(op).sizes().trace, .dtype = DType::kFp32});
  std::vector<EventRecord> records;
};

INSTANTIATE_TEST_SUITE_P(Worlds, OpTrace, testing::Combine(testing::ValuesIn(kOps), testing::ValuesIn(kWorlds)),
                         joined_names);

TEST_P(OpTrace, EveryTileBeginsAndEndsOnceInEveryLaunch) {
  ASSERT_FALSE(expected(EventKind::kTileBegin).empty());
  EXPECT_EQ(noted(EventKind::kTileBegin), expected(EventKind::kTileBegin));
  EXPECT_EQ(noted(EventKind::kTileEnd), expected(EventKind::kTileEnd));
}

TEST_P(OpTrace, WhatCrossesARailOrMovesInANodeOrIsReducedIsSoOnceInEveryLaunch) {
  for (const EventKind kind : {EventKind::kChunkPut, EventKind::kTilePut, EventKind::kChunkCopied,
                               EventKind::kTileTaken, EventKind::kTileReduced}) {
    EXPECT_EQ(noted(kind), expected(kind)) << name_of(kind);
  }
}

TEST_P(OpTrace, EveryWorkerTakesRowsWhenItIsTheirTurn) {
  std::map<std::tuple<uint64_t, int, int>, int> reached;  // by launch, rank, worker
  for (const EventRecord& r : records) {
    if (r.event.kind != EventKind::kTileBegin) continue;
    int& turn = reached[{r.epoch, r.rank, r.worker}];
    const int now = layout->turn(r.rank, r.event.peer);
    EXPECT_GE(now, turn) << "rank " << r.rank << " worker " << r.worker << " tile " << r.event.subject;
    turn = now;
  }
}

TEST(TraceOff, NothingIsRecordedUnlessAskedFor) {
  World world = World::local(1, 2, DeviceKind::kCpu);
  EXPECT_EQ(world.state().trace(), nullptr);
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/order/ag_gemm_trace_test.cc — the order of tiles and chunks as real threads went through it.
#include <gtest/gtest.h>

#include <map>
#include <tuple>
#include <vector>

#include "core/event.h"
#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "tests/support/ag_gemm_launch.h"
#include "tests/support/layouts.h"

namespace mk::test {
namespace {

constexpr int kLaunches = 3;
constexpr Shape kShape{67, 129, 3};  // three chunks, in parts, and three columns of tiles a shard

class Trace : public testing::TestWithParam<WorldShape> {
 protected:
  void SetUp() override {
    World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.trace = true});
    ASSERT_TRUE(runs_right(world, kShape, {.launches = kLaunches}));
    records = world.state().trace()->take();
  }

  // How often each (launch, rank, subject, peer) was noted.
  using Counts = std::map<std::tuple<uint64_t, int, int64_t, int>, int>;
  Counts counts_of(EventKind kind) const {
    Counts counts;
    for (const EventRecord& r : records) {
      if (r.event.kind == kind) ++counts[{r.epoch, r.rank, r.event.subject, r.event.peer}];
    }
    return counts;
  }

  // Calls body(launch, rank) for each pair there is.
  template <class Body>
  void for_each_launch_of_a_rank(Body&& body) const {
    for (uint64_t launch = 1; launch <= kLaunches; ++launch) {
      for (int rank = 0; rank < shape.size(); ++rank) body(launch, rank);
    }
  }

  const WorldShape shape = GetParam();
  const ag_gemm_op::Layout layout = layout_of(shape, kShape, ag_gemm_op::kCpuTile, kSplits[0], DType::kFp32);
  std::vector<EventRecord> records;
};

INSTANTIATE_TEST_SUITE_P(Worlds, Trace, testing::ValuesIn(kWorlds), case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(Trace, EveryTileBeginsAndEndsOnceInEveryLaunch) {
  Counts expected;
  for_each_launch_of_a_rank([&](uint64_t launch, int rank) {
    for (int64_t number = 0; number < layout.num_tiles(); ++number) {
      expected[{launch, rank, number, ag_gemm_op::tile_at(layout, rank, number).source}] = 1;
    }
  });
  EXPECT_EQ(counts_of(EventKind::kTileBegin), expected);
  EXPECT_EQ(counts_of(EventKind::kTileEnd), expected);
}

TEST_P(Trace, EveryWorkerTakesItsOwnRowsFirst) {
  std::map<std::tuple<uint64_t, int, int>, bool> left_home;  // by launch, rank, worker
  for (const EventRecord& r : records) {
    if (r.event.kind != EventKind::kTileBegin) continue;
    bool& left = left_home[{r.epoch, r.rank, r.worker}];
    const bool own = r.event.peer == r.rank;
    EXPECT_FALSE(own && left) << "rank " << r.rank << " worker " << r.worker << " tile " << r.event.subject;
    left = left || !own;
  }
}

TEST_P(Trace, AShardCrossesEachRailOnce) {
  Counts expected;
  for_each_launch_of_a_rank([&](uint64_t launch, int rank) {
    for (int step = 1; step < shape.nodes; ++step) {
      for (int chunk = 0; chunk < layout.row_blocks; ++chunk) {
        expected[{launch, rank, layout.chunk_number(rank, chunk), rail_peer_at(shape, rank, step)}] = layout.parts;
      }
    }
  });
  EXPECT_EQ(counts_of(EventKind::kChunkPut), expected);
}

TEST_P(Trace, ARankSpreadsItsRailsChunksInItsNodeOnce) {
  Counts expected;
  for_each_launch_of_a_rank([&](uint64_t launch, int rank) {
    for (int node = 0; node < shape.nodes; ++node) {
      const int source = shape.rank_at(node, shape.local_of(rank));
      for (int step = 1; step < shape.ranks; ++step) {
        for (int chunk = 0; chunk < layout.row_blocks; ++chunk) {
          expected[{launch, rank, layout.chunk_number(source, chunk), peer_at(shape, rank, step)}] = layout.parts;
        }
      }
    }
  });
  EXPECT_EQ(counts_of(EventKind::kChunkCopied), expected);
}

TEST(TraceOff, NothingIsRecordedUnlessAskedFor) {
  World world = World::local(1, 2, DeviceKind::kCpu);
  EXPECT_EQ(world.state().trace(), nullptr);
}

}  // namespace
}  // namespace mk::test

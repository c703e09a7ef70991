// SPDX-License-Identifier: MIT
// tests/fault/broken_fabric_test.cc — fabrics that fail, fall silent, lose a put or never have room.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>

#include "core/event.h"
#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "tests/support/expect_error.h"
#include "tests/support/op_launch.h"
#include "tests/support/op_layouts.h"
#include "tests/support/tampered_fabric.h"

namespace mk::test {
namespace {

constexpr Shape kShape{97, 3, 5};  // four chunks a shard
constexpr int64_t kDeadlineMs = 200;
constexpr int64_t kAmpleMs = 1000;  // where all but the broken part must get done before it passes

class BrokenFabric : public testing::TestWithParam<WorldShape> {
 protected:
  using Put = TamperedFabric::PutHook;
  using Poll = TamperedFabric::PollHook;

  // Only the fabric of `broken` is tampered with.
  void launch_over(int broken, const TamperedFabric::Hooks& hooks, const Options& options = {}) {
    world = runtime::make_local_world(
        shape, DeviceKind::kCpu, options,
        [&](std::unique_ptr<Fabric> inner, const WindowRegistry&, int rank) -> std::unique_ptr<Fabric> {
          if (rank != broken) return inner;
          return std::make_unique<TamperedFabric>(std::move(inner), hooks);
        });
    enqueue(*world, launch);
  }

  testing::AssertionResult ends_with(ErrorCode code, std::initializer_list<std::string_view> words) {
    const auto begin = std::chrono::steady_clock::now();
    const auto result = throws(code, words, [&] { finish(*world); });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    EXPECT_TRUE(world->failed());
    return result;
  }

  template <class Predicate>
  bool has_fault(Predicate&& is_it) const {
    const std::vector<FaultRecord> faults = world->faults();
    return std::any_of(faults.begin(), faults.end(), is_it);
  }

  const WorldShape shape = GetParam();
  const int last = shape.size() - 1;
  OpLaunch launch{Op::kAgGemm, shape, {kShape}};
  std::unique_ptr<runtime::WorldState> world;
};

INSTANTIATE_TEST_SUITE_P(Worlds, BrokenFabric, testing::Values(WorldShape{2, 1}, WorldShape{2, 3}, WorldShape{3, 2}),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(BrokenFabric, AFailureAfterAnyNumberOfPutsNamesTheRankAndTheReason) {
  for (const int good_puts : {0, 1, 2, 4}) {
    launch = OpLaunch(Op::kAgGemm, shape, {kShape}, good_puts);
    auto puts = std::make_shared<int>(0);
    const Put put = [puts, good_puts](Fabric& inner, const Command& command, uint64_t ticket) {
      return (*puts)++ < good_puts ? inner.put(command, ticket) : PutResult::kFailed;
    };
    launch_over(last, {.put = put, .reason = "the switch is gone"});
    EXPECT_TRUE(ends_with(ErrorCode::kFabric, {"rank " + std::to_string(last), "the switch is gone"}))
        << good_puts << " puts went well";
    world.reset();
  }
}

TEST_P(BrokenFabric, AFailureEndsTheLaunchLongBeforeTheDeadlineOfItsWaits) {
  const Put put = [](Fabric&, const Command&, uint64_t) { return PutResult::kFailed; };
  launch_over(0, {.put = put, .reason = "down"}, {.timeout_ms = 3'600'000});
  EXPECT_TRUE(ends_with(ErrorCode::kFabric, {"down"}));
}

TEST_P(BrokenFabric, OneThatNeverCompletesAPutLeavesItsSenderUnsettled) {
  const Poll poll = [](Fabric&, std::vector<uint64_t>&) { return PutResult::kSent; };
  launch_over(0, {.poll = poll}, {.timeout_ms = kAmpleMs});
  EXPECT_TRUE(ends_with(ErrorCode::kTimeout, {"rank 0 send 0 waited 1000 ms for its puts to complete"}));
  EXPECT_TRUE(launch.is_right()) << "all bytes had arrived";
}

TEST_P(BrokenFabric, ASwallowedPutIsNamedByTheSignalThatDidNotArrive) {
  constexpr int kSwallowed = 3;
  const ag_gemm_op::Layout layout = ag_layout(shape, {.shape = kShape, .dtype = DType::kFp32});
  const int rail_peer = rail_peer_at(shape, 0, 1);
  const uint32_t told = layout.signal_of_put(0, {kSwallowed, 0});
  const Put put = [=](Fabric& inner, const Command& command, uint64_t ticket) {
    if (command.signal_index != told || static_cast<int>(command.to_rank) != rail_peer) {
      return inner.put(command, ticket);
    }
    Command empty = command;  // lands nowhere that matters, so that its ticket completes
    empty.bytes = 0;
    empty.amount = 0;
    return inner.put(empty, ticket);
  };
  launch_over(0, {.put = put}, {.timeout_ms = kAmpleMs});
  const auto ended = ends_with(ErrorCode::kTimeout, {"(it holds 0)"});
  EXPECT_TRUE(ended);
  const std::string said = ended.message();
  const auto waits_for = [&](const char* signal, int wanted) {
    return said.find(signal) != said.npos && said.find(fmt::format("to reach {} ", wanted)) != said.npos;
  };
  EXPECT_TRUE(waits_for("arrived[rank ", layout.parts) || (layout.passes_on() && waits_for("landed[node ", 1))) << said;
  EXPECT_TRUE(has_fault([&](const FaultRecord& f) { return f.rank == rail_peer && f.signal == told; }));
}

// A tile starts when its rows are there, not when the shard is.
TEST_P(BrokenFabric, TilesOfTheChunksThatDidArriveAreComputed) {
  const ag_gemm_op::Layout layout = ag_layout(shape, {.shape = kShape, .dtype = DType::kFp32});
  const int last_chunk = layout.row_blocks - 1;
  const Put put = [=](Fabric& inner, const Command& command, uint64_t ticket) {
    return command.signal_index == layout.signal_of_put(0, {last_chunk, 0}) ? PutResult::kSent
                                                                          : inner.put(command, ticket);
  };
  launch_over(0, {.put = put}, {.timeout_ms = kAmpleMs, .trace = true});
  EXPECT_TRUE(ends_with(ErrorCode::kTimeout, {}));
  std::set<int> computed;  // chunks of rank 0 at its rail peer
  const int rail_peer = rail_peer_at(shape, 0, 1);
  for (const EventRecord& r : world->trace()->take()) {
    if (r.event.kind != EventKind::kTileEnd || r.rank != rail_peer || r.event.peer != 0) continue;
    computed.insert(ag_gemm_op::tile_at(layout, r.rank, r.event.subject).row_block);
  }
  EXPECT_TRUE(computed.contains(0));
  EXPECT_FALSE(computed.contains(last_chunk));
}

TEST_P(BrokenFabric, OneThatNeverHasRoomTimesOut) {
  const Put put = [](Fabric&, const Command&, uint64_t) { return PutResult::kFull; };
  for (const int ring_capacity : {1, 256}) {
    launch = OpLaunch(Op::kAgGemm, shape, {kShape}, ring_capacity);
    launch_over(0, {.put = put}, {.timeout_ms = kDeadlineMs, .ring_capacity = ring_capacity});
    EXPECT_TRUE(ends_with(ErrorCode::kTimeout, {"waited 200 ms"}));
    world.reset();
  }
}

TEST_P(BrokenFabric, ACommandThatPointsOutsideItsWindowFailsTheWorldAndNotTheProcess) {
  const Put put = [](Fabric& inner, Command command, uint64_t ticket) {
    if (command.bytes > 0) command.to_offset = uint64_t{1} << 40;
    return inner.put(command, ticket);
  };
  launch_over(last, {.put = put});
  EXPECT_TRUE(ends_with(ErrorCode::kFabric, {"rank " + std::to_string(last), "leaves its window"}));
}

TEST_P(BrokenFabric, ANewWorldWorksAfterIt) {
  const Put put = [](Fabric&, const Command&, uint64_t) { return PutResult::kFailed; };
  launch_over(0, {.put = put, .reason = "down"});
  EXPECT_TRUE(ends_with(ErrorCode::kFabric, {"down"}));
  World fresh = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
  EXPECT_TRUE(runs_right(fresh, Op::kAgGemm, kShape));
}

}  // namespace
}  // namespace mk::test

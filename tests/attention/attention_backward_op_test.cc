// SPDX-License-Identifier: MIT
// tests/attention/attention_backward_op_test.cc — ring_attention_backward on CPU threads: every gradient is right,
// whatever the mask, and nothing hangs where a rank is missing.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "base/math.h"
#include "ops/attention/ring_attention_backward_targets.h"
#include "runtime/host_device.h"
#include "tests/attention/attention_backward_data.h"
#include "tests/support/expect_error.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

using attention::BackwardLayout;

// Ones, primes, one past a tile (16 rows) in either order; one, four and eight query heads for a key head.  A rank with
// an odd number of rows has one more in zigzag order.
constexpr RingAttentionShape kGradientShapes[] = {{1, 1, 1, 1, 1, DType::kFp32},
                                                  {2, 7, 4, 1, 8, DType::kBf16},
                                                  {1, 17, 8, 1, 16, DType::kFp16},
                                                  {1, 33, 2, 2, 8, DType::kFp32},
                                                  {1, 5, 8, 2, 80, DType::kBf16}};

// Windows of one key, of a few, past the rows of a rank, and past all.
std::vector<AttentionMask> masks_of_gradients(const AttentionCase& at) {
  return {{MaskKind::kFull},
          {MaskKind::kCausal},
          {MaskKind::kCausal, 1},
          {MaskKind::kCausal, 5},
          {MaskKind::kCausal, at.shape.rows + 3},
          {MaskKind::kCausal, 3 * at.seq()}};
}

AttentionCase backward_case(const WorldShape& world, SequenceOrder order, RingAttentionShape shape) {
  if (order == SequenceOrder::kZigzag) shape.rows = round_up<int64_t>(shape.rows, 2);
  return {.world = world, .form = {.order = order}, .shape = shape};
}

constexpr SequenceOrder kOrders[] = {SequenceOrder::kContiguous, SequenceOrder::kZigzag};

// More threads for a rank than this machine may have.
struct WideDevice : runtime::HostDevice {
  using HostDevice::HostDevice;
  int seats_per_rank() const override { return 12; }
};
World wide_world(const WorldShape& shape) {
  return World(std::make_unique<runtime::WorldState>(shape, std::make_unique<WideDevice>(shape.size()), Options{}));
}

Split split_for(const WorldShape& world, int intra, int send, int collect, int compute) {
  Split split{{"compute", compute}};
  if (world.ranks > 1) split.insert({"intra", intra});
  if (world.nodes > 1) split.insert({{"send", send}, {"keep", 1}});
  if (world.size() > 1) split.insert({"collect", collect});
  return split;
}

// ---- every gradient ----------------------------------------------------------------------------------

class AttentionBackwardOp : public testing::TestWithParam<std::tuple<WorldShape, SequenceOrder>> {
 protected:
  WorldShape shape = std::get<0>(GetParam());
  SequenceOrder order = std::get<1>(GetParam());
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
};
INSTANTIATE_TEST_SUITE_P(Worlds, AttentionBackwardOp,
                         testing::Combine(testing::Values(WorldShape{1, 1}, WorldShape{1, 2}, WorldShape{1, 8},
                                                          WorldShape{2, 2}, WorldShape{2, 8}, WorldShape{3, 2},
                                                          WorldShape{5, 1}),
                                          testing::ValuesIn(kOrders)),
                         joined_names);

// Sinks and scales take turns.
TEST_P(AttentionBackwardOp, IsRightWithEveryShapeAndMask) {
  int turn = shape.size();
  for (const RingAttentionShape& of : kGradientShapes) {
    for (size_t mask = 0; mask < masks_of_gradients({}).size(); ++mask, ++turn) {
      AttentionCase at = backward_case(shape, order, of);
      at.form.mask = masks_of_gradients(at)[mask];
      if (turn % 2 == 0) at.sinks = Sinks::kGiven;
      if (turn % 3 == 0) at.scale = 0.3f;
      EXPECT_TRUE(differentiates_right(world, at, 2, seed_of(turn, mask)));
    }
  }
}

// Sequences of one query, shorter than the world, and longer than a rank's rows; ends inside tiles and at them.
TEST_P(AttentionBackwardOp, PackedSequencesAreRight) {
  int turn = shape.size();
  for (const uint64_t packing : {1, 2, 3}) {
    for (const AttentionMask& mask :
         {AttentionMask{}, AttentionMask{MaskKind::kCausal}, AttentionMask{MaskKind::kCausal, 5}}) {
      const int64_t rows = shape.size() > 4 ? 7 : 19;
      AttentionCase at = backward_case(shape, order, {1, rows, 4, 2, 8, kDTypes[++turn % std::size(kDTypes)]});
      at.form.mask = mask;
      at.form.packing = packing;
      if (turn % 2 == 0) at.sinks = Sinks::kGiven;
      EXPECT_TRUE(differentiates_right(world, at, 2, seed_of(turn, packing)));
    }
  }
}

// Views of larger tensors; sequences of a batch and packed ones.
TEST_P(AttentionBackwardOp, TensorsWithGapsAreRight) {
  int turn = shape.size();
  for (const HeadsLie lie : kHeadsLies) {
    const int64_t rows = shape.size() > 4 ? 5 : 19;
    AttentionCase at = backward_case(shape, order, {2, rows, 4, 2, 8, kDTypes[++turn % std::size(kDTypes)]});
    at.form.mask.kind = turn % 4 < 2 ? MaskKind::kFull : MaskKind::kCausal;
    at.form.packing = turn % 3;
    if (at.form.packing != 0) at.shape.batch = 1;
    at.lie = lie;
    EXPECT_TRUE(differentiates_right(world, at, 2, seed_of(turn, 1))) << name_of(lie);
  }
}

// o and lse as our forward pass leaves them, in a launch that is queued before; three of each in a row.
TEST_P(AttentionBackwardOp, IsRightBehindTheForwardPass) {
  int turn = shape.size();
  for (const AttentionMask& mask : {AttentionMask{}, {MaskKind::kCausal}, {MaskKind::kCausal, 6}}) {
    AttentionCase at = backward_case(shape, order, {1, 5, 4, 1, 64, kDTypes[++turn % std::size(kDTypes)]});
    at.form.mask = mask;
    if (turn % 2 == 0) at.sinks = Sinks::kGiven;
    if (turn % 3 == 0) at.lie = HeadsLie::kMixed;
    std::vector<AttentionBackwardLaunch> queued;
    for (const uint64_t launch : {0, 2, 4}) {
      queued.emplace_back(world, at, turn, launch, Outputs::kOfTheForwardPass);
    }
    for (AttentionBackwardLaunch& launch : queued) launch.enqueue(world);
    world.synchronize();
    for (const AttentionBackwardLaunch& launch : queued) EXPECT_TRUE(launch.is_right()) << name_of(at.form);
  }
}

// Slots, signals and sums are used again and again, by launches that change shape, type, mask and sinks each time.
TEST_P(AttentionBackwardOp, LaunchAfterLaunchIsRight) {
  std::vector<AttentionCase> cases = {backward_case(shape, order, {1, 19, 4, 4, 3, DType::kFp32}),
                                      backward_case(shape, order, {2, 3, 2, 1, 6, DType::kFp16}),
                                      backward_case(shape, order, {1, 6, 8, 1, 4, DType::kBf16})};
  cases[0].form.mask = {MaskKind::kCausal};
  cases[1].sinks = Sinks::kGiven;
  cases[2].form.mask = {MaskKind::kCausal, 7};
  std::vector<AttentionBackwardLaunch> queued;
  for (int launch = 0; launch < 9; ++launch) queued.emplace_back(world, cases[launch % 3], 5, launch);
  for (AttentionBackwardLaunch& launch : queued) launch.enqueue(world);
  world.synchronize();
  for (const AttentionBackwardLaunch& launch : queued) EXPECT_TRUE(launch.is_right());
}

// What CPU threads counted as they moved it; the plan is that of the launches.
TEST_P(AttentionBackwardOp, BytesOnTheLinksAreWhatTheFormulaSays) {
  constexpr int kLaunches = 2;
  uint64_t before = 0;
  for (const AttentionMask& mask : {AttentionMask{}, {MaskKind::kCausal}, {MaskKind::kCausal, 9}}) {
    World fresh = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
    AttentionCase at = backward_case(shape, order, {1, 18, 2, 1, 4, DType::kBf16});
    at.form.mask = mask;
    EXPECT_TRUE(differentiates_right(fresh, at, kLaunches, 3));
    const runtime::Plan& plan =
        attention::backward_plan_for(fresh.state(), {shape, at.shape, mask, order, at.scale}, {});
    const auto& layout = plan.layout<attention::KeptBackwardLayout>();
    uint64_t all = 0;
    for (int rank = 0; rank < shape.size(); ++rank) {
      const uint64_t nvlink = attention::backward_nvlink_bytes(layout, rank);
      const uint64_t network = attention::backward_network_bytes(layout, rank);
      EXPECT_EQ(plan.nvlink_bytes(rank), kLaunches * nvlink) << rank;
      EXPECT_EQ(fresh.network_stats(rank).bytes, kLaunches * network) << rank;
      all += nvlink + network;
    }
    if (before > 0) {
      EXPECT_LT(all, before) << "a mask that hides more moves less";
    }
    before = all;
  }
}

// ---- the same bits -----------------------------------------------------------------------------------

class AttentionBackwardSplits : public testing::TestWithParam<std::tuple<WorldShape, SequenceOrder>> {};
INSTANTIATE_TEST_SUITE_P(Worlds, AttentionBackwardSplits,
                         testing::Combine(testing::Values(WorldShape{1, 1}, WorldShape{1, 3}, WorldShape{2, 3},
                                                          WorldShape{3, 2}),
                                          testing::ValuesIn(kOrders)),
                         joined_names);

TEST_P(AttentionBackwardSplits, EveryRunAndEverySplitGivesTheSameBits) {
  const auto& [shape, order] = GetParam();
  World world = wide_world(shape);
  AttentionCase at = backward_case(shape, order, {2, 21, 4, 2, 5, DType::kFp32});
  at.form.mask = {MaskKind::kCausal, 70};
  at.sinks = Sinks::kGiven;
  const std::vector<Split> splits = {{},
                                     {},
                                     split_for(shape, 1, 1, 1, 1),
                                     split_for(shape, 2, 1, 1, 3),
                                     split_for(shape, 1, 2, 1, 4),
                                     split_for(shape, 1, 1, 3, 2)};
  std::vector<AttentionBackwardLaunch> launches;
  for (const Split& split : splits) {
    launches.emplace_back(world, at, 7, 0);
    launches.back().enqueue(world, split);
    world.synchronize();
    EXPECT_TRUE(launches.back().is_right());
    EXPECT_TRUE(launches.back().has_the_bits_of(launches.front()));
  }
}

// Chunks of several parts and bundles of several shares; windows inside a tile, past one, and past a rank's rows.
TEST_P(AttentionBackwardSplits, ManyTilesOfARankAreRight) {
  const auto& [shape, order] = GetParam();
  World world = wide_world(shape);
  AttentionCase at = backward_case(shape, order, {1, 149, 2, 1, 3, DType::kBf16});
  int turn = 0;
  for (const AttentionMask& mask : {AttentionMask{},
                                    {MaskKind::kCausal},
                                    {MaskKind::kCausal, 7},
                                    {MaskKind::kCausal, 40},
                                    {MaskKind::kCausal, 190}}) {
    at.form.mask = mask;
    EXPECT_TRUE(differentiates_right(world, at, 2, ++turn, split_for(shape, 2, 2, 2, 3)));
  }
}

// Shapes, masks, splits and worlds of a seed.
TEST(AttentionBackwardProperty, WhateverIsDrawnIsRight) {
  std::mt19937_64 random(2027);
  const auto draw = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
  for (const WorldShape& shape : {WorldShape{1, 1}, WorldShape{1, 4}, WorldShape{2, 2}, WorldShape{3, 2}}) {
    World world = wide_world(shape);
    for (int i = 0; i < 12; ++i) {
      const int64_t kv_heads = draw(2);
      AttentionCase at =
          backward_case(shape, kOrders[draw(2) - 1],
                        {draw(2), draw(24), kv_heads * draw(3), kv_heads, draw(20), kDTypes[draw(3) - 1]});
      at.form.mask.kind = draw(3) == 1 ? MaskKind::kFull : MaskKind::kCausal;
      if (at.form.mask.kind == MaskKind::kCausal && draw(2) == 1) at.form.mask.window = draw(2 * at.seq());
      if (draw(2) == 1) at.sinks = Sinks::kGiven;
      if (draw(2) == 1) at.lie = kHeadsLies[draw(std::size(kHeadsLies)) - 1];
      const auto workers = [&] { return static_cast<int>(draw(3)); };
      const Split split = split_for(shape, workers(), workers(), workers(), workers());
      ASSERT_TRUE(differentiates_right(world, at, 2, random(), split)) << i;
    }
  }
}

// ---- memory ------------------------------------------------------------------------------------------

// Keys and values together are one part; so are their gradients, in fp32.
struct BackwardMemory {
  WorldShape world;
  int64_t parts_of_keys, parts_of_gradients;
};

// Not more than the last two lines, whatever the number of ranks.
TEST(AttentionBackwardWorkspace, IsPartsOfARanksRowsTurnsAndSignals) {
  constexpr BackwardMemory kMemory[] = {{{1, 1}, 0, 0}, {{1, 4}, 2, 3}, {{1, 8}, 2, 3}, {{4, 1}, 3, 5},
                                        {{8, 1}, 3, 5}, {{4, 4}, 5, 7}, {{5, 8}, 5, 7}};
  for (const auto& [shape, parts_of_keys, parts_of_gradients] : kMemory) {
    const World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
    for (const SequenceOrder order : kOrders) {
      for (const int64_t rows : {64, 4096}) {
        const RingAttentionShape of{2, rows, 4, 2, 16, DType::kBf16};
        const int64_t elements = 2 * of.batch * rows * of.kv_heads * of.dim;
        const BackwardLayout layout = attention::make_backward_layout(
            {shape, of, {}, order, {}}, {},
            attention::choose_backward_roles(shape, {}, seats_of(world.state().device())));
        const int64_t queries = of.batch * rows * of.heads * (of.dim + 2) * 4;  // sums, lse and delta
        const int64_t pieces = order == SequenceOrder::kZigzag ? 2 : 1;
        const int64_t turns = layout.most_tiles() * (pieces * shape.size() + 1) * 4;
        EXPECT_EQ(ring_attention_backward_workspace_bytes(world, of, {.order = order}),
                  parts_of_keys * elements * 2 + parts_of_gradients * elements * 4 + queries + turns +
                      8 * layout.num_signals())
            << name_of(shape) << " " << name_of(order) << " " << rows;
      }
    }
  }
}

// ---- a rank that does not launch ---------------------------------------------------------------------

struct BackwardAbsence {
  WorldShape world;
  int missing;
};

std::string name_of(const BackwardAbsence& absence) {
  return mk::name_of(absence.world) + "_without_" + std::to_string(absence.missing);
}

class AttentionBackwardMissingRank : public testing::TestWithParam<BackwardAbsence> {};
INSTANTIATE_TEST_SUITE_P(Worlds, AttentionBackwardMissingRank,
                         testing::Values(BackwardAbsence{{1, 2}, 0}, BackwardAbsence{{2, 1}, 1},
                                         BackwardAbsence{{2, 3}, 4}, BackwardAbsence{{3, 2}, 0}),
                         case_name<testing::TestParamInfo<BackwardAbsence>>);

// With a full mask every rank lacks its keys.
TEST_P(AttentionBackwardMissingRank, IsReportedInTimeByEveryOtherRank) {
  const auto& [shape, missing] = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.timeout_ms = 200});
  const AttentionCase at = backward_case(shape, SequenceOrder::kContiguous, {1, 5, 2, 1, 4, DType::kFp32});
  AttentionBackwardLaunch launch(world, at, 1, 0);
  const auto begin = std::chrono::steady_clock::now();
  launch.enqueue_without(world, missing);
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank ", " waited ", " for ", "[", "to reach ", "launch 1"},
                     [&] { world.synchronize(); }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  std::set<int> reported;
  bool timed_out = false;  // others were stopped by then
  for (const FaultRecord& fault : world.state().faults()) {
    reported.insert(fault.rank);
    timed_out = timed_out || fault.kind == FaultKind::kSignal;
    EXPECT_LT(fault.seen, fault.wanted == 0 ? 1 : fault.wanted);  // nothing is wanted by who never began
  }
  EXPECT_TRUE(timed_out);
  EXPECT_EQ(std::ssize(reported), shape.size() - 1);
  EXPECT_FALSE(reported.contains(missing));
  AttentionBackwardLaunch again(world, at, 1, 1);
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"World has failed"}, [&] { again.enqueue(world); }));
  EXPECT_TRUE(again.is_untouched());
  world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
  EXPECT_TRUE(differentiates_right(world, at, 2, 3)) << "a new World works";
}

}  // namespace
}  // namespace mk::test

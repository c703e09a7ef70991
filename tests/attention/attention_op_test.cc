// SPDX-License-Identifier: MIT
// tests/attention/attention_op_test.cc — ring_attention on CPU threads: every element is right, whatever the mask.
#include <gtest/gtest.h>

#include <random>
#include <tuple>
#include <vector>

#include "base/math.h"
#include "tests/attention/ring_attention_launch.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

// Ones, primes, one past a tile (16 queries) and past a block (32 keys); key heads for each query head and for many.
// A rank with an odd number of rows has one more in zigzag order.
constexpr RingAttentionShape kShapes[] = {{1, 1, 1, 1, 1, DType::kFp32},
                                          {3, 7, 4, 1, 8, DType::kBf16},
                                          {1, 17, 8, 1, 64, DType::kFp16},
                                          {1, 33, 2, 2, 8, DType::kFp32},
                                          {1, 13, 4, 2, 80, DType::kBf16}};

// Windows of one key, of a few, past the rows of a rank, and past all.
std::vector<AttentionMask> masks_for(const AttentionCase& at) {
  return {{MaskKind::kFull},
          {MaskKind::kCausal},
          {MaskKind::kCausal, 1},
          {MaskKind::kCausal, 5},
          {MaskKind::kCausal, at.shape.rows + 3},
          {MaskKind::kCausal, 3 * at.seq()}};
}

AttentionCase case_of(const WorldShape& world, SequenceOrder order, RingAttentionShape shape) {
  if (order == SequenceOrder::kZigzag) shape.rows = round_up<int64_t>(shape.rows, 2);
  return {.world = world, .form = {.order = order}, .shape = shape};
}

std::vector<WorldShape> worlds_of_attention() {
  std::vector<WorldShape> worlds(kWorlds.begin(), kWorlds.end());
  worlds.push_back({3, 2});
  return worlds;
}

class AttentionOp : public testing::TestWithParam<std::tuple<WorldShape, SequenceOrder>> {
 protected:
  WorldShape shape = std::get<0>(GetParam());
  SequenceOrder order = std::get<1>(GetParam());
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
};
INSTANTIATE_TEST_SUITE_P(Worlds, AttentionOp,
                         testing::Combine(testing::ValuesIn(worlds_of_attention()),
                                          testing::Values(SequenceOrder::kContiguous, SequenceOrder::kZigzag)),
                         joined_names);

// Shapes, sinks and scales take turns, so that worlds see them with other masks.
TEST_P(AttentionOp, IsRightWithEveryMask) {
  int turn = shape.size() + shape.nodes;
  for (size_t mask = 0; mask < masks_for({}).size(); ++mask, ++turn) {
    AttentionCase at = case_of(shape, order, kShapes[turn % std::size(kShapes)]);
    at.form.mask = masks_for(at)[mask];
    if (turn % 2 == 0) at.sinks = Sinks::kGiven;
    if (turn % 3 == 0) at.scale = 0.3f;
    EXPECT_TRUE(attends_right(world, at, 2, seed_of(turn, mask)));
  }
}

// Sequences of one query, shorter than the world, and longer than a rank's rows; ends inside tiles and at them.
TEST_P(AttentionOp, PackedSequencesAreRight) {
  int turn = shape.size();
  for (const uint64_t packing : {1, 2, 3}) {
    for (const AttentionMask& mask :
         {AttentionMask{}, AttentionMask{MaskKind::kCausal}, AttentionMask{MaskKind::kCausal, 5}}) {
      RingAttentionShape of = kShapes[++turn % std::size(kShapes)];
      of.batch = 1;
      of.rows *= 2;
      AttentionCase at = case_of(shape, order, of);
      at.form.mask = mask;
      at.form.packing = packing;
      if (turn % 2 == 0) at.sinks = Sinks::kGiven;
      EXPECT_TRUE(attends_right(world, at, 2, seed_of(turn, packing)));
    }
  }
}

// Views of larger tensors; sequences of a batch and packed ones.
TEST_P(AttentionOp, TensorsWithGapsAreRight) {
  int turn = shape.size();
  for (const HeadsLie lie : kHeadsLies) {
    for (const AttentionMask& mask : {AttentionMask{}, AttentionMask{MaskKind::kCausal}}) {
      const int64_t rows = shape.size() > 4 ? 5 : 19;
      AttentionCase at = case_of(shape, order, {3, rows, 4, 2, 8, kDTypes[++turn % std::size(kDTypes)]});
      at.form.mask = mask;
      at.form.packing = turn % 3;
      if (at.form.packing != 0) at.shape.batch = 1;
      at.lie = lie;
      EXPECT_TRUE(attends_right(world, at, 2, seed_of(turn, 1))) << name_of(lie);
    }
  }
}

// New lengths with every call.
TEST_P(AttentionOp, PackingsMayFollowEachOther) {
  std::vector<RingAttentionLaunch> queued;
  for (uint64_t launch = 0; launch < 8; ++launch) {
    AttentionCase at = case_of(shape, order, {1, 20, 4, 2, 8, DType::kFp16});
    at.form.mask = {MaskKind::kCausal};
    at.form.packing = 1 + launch % 5;
    queued.emplace_back(world, at, 5, launch);
  }
  for (RingAttentionLaunch& launch : queued) launch.enqueue(world);
  world.synchronize();
  for (const RingAttentionLaunch& launch : queued) EXPECT_TRUE(launch.is_right());
}

class AttentionSplits : public testing::TestWithParam<std::tuple<WorldShape, SequenceOrder>> {};
INSTANTIATE_TEST_SUITE_P(Worlds, AttentionSplits,
                         testing::Combine(testing::Values(WorldShape{1, 3}, WorldShape{2, 3}, WorldShape{3, 2}),
                                          testing::Values(SequenceOrder::kContiguous, SequenceOrder::kZigzag)),
                         joined_names);

TEST_P(AttentionSplits, EveryRunAndEverySplitGivesTheSameBits) {
  const auto& [shape, order] = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
  AttentionCase at = case_of(shape, order, {2, 21, 4, 2, 5, DType::kBf16});
  at.form.mask = {MaskKind::kCausal, 70};
  std::vector<Split> splits = {{}, {}};
  constexpr std::tuple<int, int, int> kWorkers[] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}};
  for (const auto& [intra, send, compute] : kWorkers) {
    Split& split = splits.emplace_back(Split{{"intra", intra}, {"compute", compute}});
    if (shape.nodes > 1) split.insert({{"send", send}, {"keep", 1}});
  }
  std::vector<RingAttentionLaunch> launches;
  for (const Split& split : splits) {
    launches.emplace_back(world, at, 7, 0);
    launches.back().enqueue(world, split);
    world.synchronize();
    EXPECT_TRUE(launches.back().is_right());
    EXPECT_TRUE(launches.back().has_the_bits_of(launches.front()));
  }
}

// Slots, signals and staged rows are used again and again, by launches of two shapes in turn, with and without gaps.
TEST_P(AttentionSplits, LaunchAfterLaunchIsRight) {
  const auto& [shape, order] = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
  AttentionCase one = case_of(shape, order, {1, 19, 4, 4, 3, DType::kFp32});
  AttentionCase other = case_of(shape, order, {2, 11, 2, 1, 6, DType::kFp16});
  one.form.mask.kind = MaskKind::kCausal;
  std::vector<RingAttentionLaunch> queued;
  for (int launch = 0; launch < 16; ++launch) {
    AttentionCase at = launch % 3 == 0 ? other : one;
    at.lie = launch % 4 < 2 ? HeadsLie::kWithoutGaps : kHeadsLies[launch % std::size(kHeadsLies)];
    queued.emplace_back(world, at, 5, launch);
  }
  for (RingAttentionLaunch& launch : queued) launch.enqueue(world);
  world.synchronize();
  for (const RingAttentionLaunch& launch : queued) EXPECT_TRUE(launch.is_right());
}

TEST_P(AttentionSplits, WorkspaceGrowsWithRowsAndHardlyWithRanks) {
  const auto& [shape, order] = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
  const RingAttentionOptions options{.order = order};
  const auto bytes = [&](const World& of, int64_t rows) {
    return ring_attention_workspace_bytes(of, {1, rows, 4, 2, 16, DType::kBf16}, options);
  };
  EXPECT_GT(bytes(world, 4096), bytes(world, 1024) * 3);
  World larger = World::local(2 * shape.nodes, 2 * shape.ranks, DeviceKind::kCpu);
  EXPECT_LT(bytes(larger, 4096), bytes(world, 4096) * 2);
}

// Shapes, masks and worlds of a seed.
TEST(AttentionProperty, WhateverIsDrawnIsRight) {
  std::mt19937_64 random(2026);
  const auto draw = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
  for (const WorldShape& shape : {WorldShape{1, 1}, WorldShape{1, 4}, WorldShape{2, 2}, WorldShape{3, 2}}) {
    World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
    for (int i = 0; i < 12; ++i) {
      const int64_t kv_heads = draw(2);
      AttentionCase at = case_of(shape, draw(2) == 1 ? SequenceOrder::kZigzag : SequenceOrder::kContiguous,
                                 {draw(2), draw(40), kv_heads * draw(3), kv_heads, draw(20), kDTypes[draw(3) - 1]});
      at.form.mask.kind = draw(3) == 1 ? MaskKind::kFull : MaskKind::kCausal;
      if (at.form.mask.kind == MaskKind::kCausal && draw(2) == 1) at.form.mask.window = draw(2 * at.seq());
      if (draw(2) == 1) at.sinks = Sinks::kGiven;
      if (draw(2) == 1) at.lie = kHeadsLies[draw(std::size(kHeadsLies)) - 1];
      ASSERT_TRUE(attends_right(world, at, 2, random())) << i;
    }
  }
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/bench/attention_case_test.cc — attention that is timed: its shapes, its work, and the bytes it moves.
#include "bench/attention_case.h"

#include <gtest/gtest.h>

#include "bench/paced_split.h"
#include "bench/shapes.h"
#include "ops/attention/ring_attention_targets.h"

namespace mk::bench {
namespace {

constexpr WorldShape kWorlds[] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}, {1, 8}, {4, 2}};

TEST(AttentionCase, EveryOneOfTheListIsAllowedOnAGpu) {
  for (const WorldShape& world : kWorlds) {
    const std::vector<BenchCase> cases = attention_cases(world);
    EXPECT_EQ(cases.size(), 8u);
    for (const BenchCase& c : cases) {
      EXPECT_NO_THROW(attention::check_problem(attention_problem(c), DeviceKind::kCuda));
      EXPECT_EQ(c.n, c.m * world.size());
    }
  }
}

TEST(AttentionCase, WhatTheCallerNamesIsTaken) {
  const AttentionWish wish{.seq = 4096,
                           .heads = 12,
                           .kv_heads = 3,
                           .mask = AttentionMask{MaskKind::kCausal, 100},
                           .order = SequenceOrder::kContiguous};
  const std::vector<BenchCase> cases = attention_cases({2, 2}, wish);
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].m, 1024);
  EXPECT_EQ(cases[0].attention.heads, 12);
  EXPECT_EQ(cases[0].attention.kv_heads, 3);
  EXPECT_EQ(cases[0].attention.mask.window, 100);
  EXPECT_EQ(cases[0].attention.order, SequenceOrder::kContiguous);
  EXPECT_EQ(attention_cases({1, 2}, {.heads = 6})[0].attention.kv_heads, 6);
}

TEST(AttentionCase, AFullMaskTakesTwoProductsForEachHeadAndACausalOneHalf) {
  const BenchCase full = attention_cases({1, 2}, {.seq = 256, .heads = 4, .mask = AttentionMask{}})[0];
  EXPECT_EQ(full.flops_per_rank(), 2 * 4 * 2.0 * 128 * 256 * 128);
  const BenchCase causal =
      attention_cases({1, 2}, {.seq = 256, .heads = 4, .mask = AttentionMask{MaskKind::kCausal}})[0];
  EXPECT_EQ(causal.flops_per_rank(), full.flops_per_rank() / 2);
}

TEST(AttentionCase, AFullMaskMovesAllKeysAndValuesOnceToEachNodeAndToEachPeer) {
  const BenchCase c = attention_cases({2, 2}, {.seq = 4 * 512, .heads = 8, .kv_heads = 2, .mask = AttentionMask{}})[0];
  const int64_t shard = 2 * 512 * 2 * 128 * 2;
  EXPECT_EQ(traffic_of(c).network_bytes, shard);
  EXPECT_EQ(traffic_of(c).nvlink_bytes, 2 * shard);
  EXPECT_EQ(traffic_of(attention_cases({1, 1}, {.seq = 512})[0]).nvlink_bytes, 0);
}

TEST(AttentionCase, ACausalMaskInZigzagOrderMovesThreeQuarters) {
  for (const WorldShape& world : {WorldShape{1, 4}, WorldShape{4, 1}}) {
    const AttentionWish full{.seq = 8192, .mask = AttentionMask{}, .order = SequenceOrder::kZigzag};
    const AttentionWish causal{.seq = 8192, .mask = AttentionMask{MaskKind::kCausal}};
    const Traffic all = traffic_of(attention_cases(world, full)[0]);
    const Traffic needed = traffic_of(attention_cases(world, causal)[0]);
    EXPECT_LE(needed.nvlink_bytes + needed.network_bytes, all.nvlink_bytes + all.network_bytes);
    EXPECT_GE(needed.nvlink_bytes + needed.network_bytes, (all.nvlink_bytes + all.network_bytes) / 2);
  }
}

TEST(AttentionCase, ComputeOutweighsCommunicationAt16kRowsOfARank) {
  for (const BenchCase& c : attention_cases({2, 2}, {.seq = 4 * 16384})) EXPECT_GT(balance_of(c, kRealPace), 4);
}

TEST(PacedSplit, TheNicHasRoomBesideTheWorkersOfAttention) {
  for (const WorldShape& world : {WorldShape{2, 1}, WorldShape{2, 2}, WorldShape{4, 2}}) {
    const Roster chosen =
        attention::choose_roles(attention_problem(attention_cases(world)[0]), {}, Seats(132 / world.size()));
    const Roster fewer = with_room_for_nic(attention::Layout::kRoles, chosen);
    EXPECT_TRUE(leaves_buffers(fewer.num_outside()));
    EXPECT_EQ(fewer.num_compute(), chosen.num_compute());
    for (int role = 0; role < attention::Layout::kCompute; ++role) {
      EXPECT_EQ(fewer.count(role) > 0, chosen.count(role) > 0) << role;
    }
  }
}

}  // namespace
}  // namespace mk::bench

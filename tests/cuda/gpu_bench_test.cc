// SPDX-License-Identifier: MIT
// tests/cuda/gpu_bench_test.cc — the scale model on a GPU: nothing is faster than its links, and all is right.
#include <gtest/gtest.h>

#include "bench/attention_case.h"
#include "bench/measure.h"
#include "bench/moe_case.h"
#include "bench/round_trip.h"
#include "bench/shapes.h"
#include "tests/cuda/gpu_launch.h"

namespace mk::bench {
namespace {

class GpuBench : public testing::TestWithParam<std::tuple<OpKind, WorldShape>> {};

TEST_P(GpuBench, BaselinesAreRightAndNoFasterThanTheLinks) {
  MK_NEEDS_GPU();
  const auto [op, world] = GetParam();
  MeasureOptions options;
  options.repetitions = 2;
  const BenchCase shape{op, world, world.size() * 96, 264, 136, DType::kBf16};  // chunks with a tail
  const Measurement result = measure(shape, options);
  EXPECT_EQ(result.check.wrong, 0);
  EXPECT_GE(result.serial.median_us, result.communication_us);
  EXPECT_GE(result.overlapped.median_us, result.communication_us);
}

constexpr WorldShape kGpuBenchWorlds[] = {{1, 1}, {1, 3}, {2, 1}, {2, 2}, {2, 4}, {4, 2}};

INSTANTIATE_TEST_SUITE_P(All, GpuBench,
                         testing::Combine(testing::ValuesIn(kGemmKinds), testing::ValuesIn(kGpuBenchWorlds)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_" +
                                  mk::name_of(std::get<1>(info.param));
                         });

class GpuMoeBench : public testing::TestWithParam<std::tuple<OpKind, WorldShape>> {};

TEST_P(GpuMoeBench, AllAreRightAndNoneIsFasterThanTheLinks) {
  MK_NEEDS_GPU();
  const auto [op, world] = GetParam();
  MeasureOptions options;
  options.repetitions = 2;
  for (const int64_t tokens : {3, 150}) {  // chunks with a tail, experts without rows, and both tiles
    const MoeWish wish{.tokens = tokens, .hidden = 264, .inter = 136, .experts = 2 * world.size(), .topk = 2};
    const Measurement result = measure(moe_cases(op, world, wish)[0], options);
    EXPECT_EQ(result.check.wrong, 0) << tokens;
    ASSERT_TRUE(result.fused.has_value()) << result.why_no_fused;
    EXPECT_GE(result.serial.median_us, result.communication_us) << tokens;
    EXPECT_GE(result.overlapped.median_us, result.communication_us) << tokens;
    EXPECT_GE(result.fused->median_us, result.communication_us) << tokens;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuMoeBench,
                         testing::Combine(testing::ValuesIn(kMoeKinds), testing::ValuesIn(kGpuBenchWorlds)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_" +
                                  mk::name_of(std::get<1>(info.param));
                         });

class GpuAttentionBench : public testing::TestWithParam<WorldShape> {};
INSTANTIATE_TEST_SUITE_P(All, GpuAttentionBench, testing::ValuesIn(kGpuBenchWorlds),
                         [](const auto& info) { return mk::name_of(info.param); });

TEST_P(GpuAttentionBench, AllAreRightAndNoneIsFasterThanTheLinks) {
  MK_NEEDS_GPU();
  const WorldShape world = GetParam();
  MeasureOptions options;
  options.repetitions = 2;
  // Keys that end inside a tile; every mask, and a window that leaves some ranks without keys of others.
  for (const AttentionMask mask :
       {AttentionMask{}, AttentionMask{MaskKind::kCausal}, AttentionMask{MaskKind::kCausal, 150}}) {
    for (const SequenceOrder order : {SequenceOrder::kContiguous, SequenceOrder::kZigzag}) {
      const AttentionWish wish{.seq = 2 * 165 * world.size(), .heads = 4, .kv_heads = 2, .mask = mask, .order = order};
      const Measurement result = measure(attention_cases(world, wish)[0], options);
      EXPECT_EQ(result.check.wrong, 0) << name_of(mask.kind) << name_of(order);
      ASSERT_TRUE(result.fused.has_value()) << result.why_no_fused;
      EXPECT_GE(result.serial.median_us, result.communication_us);
      EXPECT_GE(result.fused->median_us, result.communication_us);
    }
  }
}

// 2x1 has no NVLink: what is paced is the network alone.
TEST(GpuBench, AFusedOperatorIsNoFasterThanItsNetwork) {
  MK_NEEDS_GPU();
  MeasureOptions options;
  options.pace = parse_pace("network=50");
  options.repetitions = 3;
  for (const OpKind op : kGemmKinds) {
    const Measurement result = measure({op, {2, 1}, 2048, 256, 1024, DType::kBf16}, options);
    ASSERT_TRUE(result.fused.has_value()) << name_of(op) << ": " << result.why_no_fused;
    EXPECT_EQ(result.check.wrong, 0) << name_of(op);
    EXPECT_GE(result.fused->median_us, result.communication_us) << name_of(op);
  }
}

TEST(GpuBench, ALaunchWithNothingToDoIsTimedBesideAnEmptyKernel) {
  MK_NEEDS_GPU();
  MeasureOptions options;
  options.repetitions = 3;
  const FixedCost cost = measure_fixed_cost(OpKind::kAgGemm, {2, 2}, DType::kBf16, options);
  EXPECT_EQ(cost.check.wrong, 0);
  ASSERT_TRUE(cost.fused.has_value());
  EXPECT_GT(cost.empty.median_us, 0);
}

// Both cross PCIe twice.  What it measures is wrong bytes or a time-out otherwise, and throws.
TEST(GpuBench, RoundTripsTakeLongerThanThePciBusDoes) {
  MK_NEEDS_GPU();
  const RoundTripFigures figures = measure_round_trips(0.02);
  EXPECT_GT(figures.round_trips, 0);
  EXPECT_GT(figures.words.median_us, 0.5);
  EXPECT_GT(figures.through_proxy.median_us, 0.5);
}

}  // namespace
}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// tests/bench/bench_case_test.cc — bytes, bounds and the list of shapes that a benchmark takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bench/cut.h"
#include "bench/shapes.h"
#include "bench/statistics.h"
#include "tests/support/worlds.h"

namespace mk::bench {
namespace {

constexpr WorldShape kBenchWorlds[] = {{1, 2}, {1, 4}, {1, 8}, {2, 1}, {2, 2}, {2, 3}, {2, 4}, {4, 1}, {4, 2}, {8, 1}};

TEST(Traffic, AgGemmSendsAShardOverEachRailAndSpreadsWhatComes) {
  const BenchCase c{OpKind::kAgGemm, {2, 3}, 6 * 33, 17, 8, DType::kBf16};
  const int64_t shard = 33 * 8 * 2;
  EXPECT_EQ(traffic_of(c).network_bytes, shard);
  EXPECT_EQ(traffic_of(c).nvlink_bytes, 2 * 2 * shard);
}

TEST(Traffic, GemmRsSendsTheRowsOthersOwn) {
  const BenchCase c{OpKind::kGemmRs, {2, 4}, 8 * 16, 24, 1000, DType::kBf16};
  const int64_t all = c.m * c.n * 2;
  EXPECT_EQ(traffic_of(c).nvlink_bytes, all * 3 / 4);  // (R-1)/R of M·N
  EXPECT_EQ(traffic_of(c).network_bytes, all / 8);     // (nodes-1) · M·N / W
}

TEST(Traffic, GemmArSendsTwiceAsMuch) {
  for (const WorldShape& world : kBenchWorlds) {
    const BenchCase rs{OpKind::kGemmRs, world, world.size() * 16, 24, 40, DType::kFp16};
    BenchCase ar = rs;
    ar.op = OpKind::kGemmAr;
    EXPECT_EQ(traffic_of(ar).nvlink_bytes, 2 * traffic_of(rs).nvlink_bytes);
    EXPECT_EQ(traffic_of(ar).network_bytes, 2 * traffic_of(rs).network_bytes);
  }
}

TEST(Traffic, OneRankAloneSendsNothing) {
  const BenchCase c{OpKind::kGemmAr, {1, 1}, 16, 16, 16, DType::kBf16};
  EXPECT_EQ(traffic_of(c).nvlink_bytes, 0);
  EXPECT_EQ(traffic_of(c).network_bytes, 0);
}

TEST(Communication, TheBusierLinkCounts) {
  const Traffic traffic{450'000, 25'000};
  EXPECT_DOUBLE_EQ(communication_us(traffic, {450, 50}, 1), 1.0);
  EXPECT_DOUBLE_EQ(communication_us(traffic, {450, 50}, 4), 4.0);
  EXPECT_DOUBLE_EQ(communication_us(traffic, {0, 50}, 1), 0.5);
  EXPECT_DOUBLE_EQ(communication_us(traffic, {}, 4), 0.0);
}

// A rank of W on one GPU has 1/W of its compute and of its links: the model keeps the ratio of real ranks.
TEST(Communication, SharingAGpuKeepsTheBalance) {
  const BenchCase c{OpKind::kAgGemm, {2, 2}, 8192, 3584, 4096, DType::kBf16};
  const double compute_alone_us = c.flops_per_rank() / (kNominalTflops * 1e6);
  const double balance = compute_alone_us / communication_us(traffic_of(c), kRealPace, 1);
  EXPECT_NEAR(balance_of(c, kRealPace), balance, 1e-9);
}

class DefaultShapes : public testing::TestWithParam<std::tuple<OpKind, WorldShape>> {};

TEST_P(DefaultShapes, SomeAreBoundByLinksSomeByComputeAndSomeByBoth) {
  const auto [op, world] = GetParam();
  const std::vector<BenchCase> shapes = default_shapes(op, world, DType::kBf16);
  EXPECT_GE(shapes.size(), 8u);
  const auto some = [&](double least, double most) {
    return std::any_of(shapes.begin(), shapes.end(), [&](const BenchCase& c) {
      const double balance = balance_of(c, kRealPace);
      return balance >= least && balance <= most;
    });
  };
  EXPECT_TRUE(some(0, 0.5));
  EXPECT_TRUE(some(1 / 1.2, 1.2));
  EXPECT_TRUE(some(2, INFINITY));
}

TEST_P(DefaultShapes, TheyGoFromSmallToLarge) {
  const auto [op, world] = GetParam();
  const std::vector<BenchCase> shapes = default_shapes(op, world, DType::kBf16);
  EXPECT_GE(shapes.back().flops_per_rank(), 100 * shapes.front().flops_per_rank());
}

TEST_P(DefaultShapes, EveryOneIsAllowedOnAGpu) {
  const auto [op, world] = GetParam();
  for (const BenchCase& c : default_shapes(op, world, DType::kBf16)) {
    EXPECT_EQ(c.m % world.size(), 0);
    EXPECT_EQ(c.n % 8, 0);
    EXPECT_EQ(c.k % 8, 0);
    EXPECT_GE(std::min({c.m, c.n, c.k}), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DefaultShapes,
                         testing::Combine(testing::ValuesIn(kGemmKinds), testing::ValuesIn(kBenchWorlds)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_" +
                                  mk::name_of(std::get<1>(info.param));
                         });

TEST(Shapes, AWorldOfOneHasShapesToo) { EXPECT_GE(default_shapes(OpKind::kAgGemm, {1, 1}, DType::kBf16).size(), 8u); }

TEST(Cut, ChunksCoverTheRowsOnce) {
  for (const int64_t rows : {1, 2, 7, 8, 64, 129}) {
    for (const int wanted : {1, 2, 4, 8}) {
      const Cut cut(rows, wanted);
      EXPECT_LE(cut.count(), wanted);
      int64_t next = 0;
      for (int chunk = 0; chunk < cut.count(); ++chunk) {
        EXPECT_EQ(cut.rows(chunk).first, next);
        EXPECT_GE(cut.rows(chunk).count, 1);
        next += cut.rows(chunk).count;
      }
      EXPECT_EQ(next, rows);
    }
  }
}

TEST(Timing, TheMedianIsInTheMiddleAndP99NearTheTop) {
  EXPECT_DOUBLE_EQ(Timing::of({3}).median_us, 3);
  EXPECT_DOUBLE_EQ(Timing::of({3}).p99_us, 3);
  EXPECT_DOUBLE_EQ(Timing::of({4, 1, 3, 2}).median_us, 2.5);
  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  EXPECT_DOUBLE_EQ(Timing::of(hundred).median_us, 50.5);
  EXPECT_DOUBLE_EQ(Timing::of(hundred).p99_us, 99);
}

}  // namespace
}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// tests/process/direct_world_test.cc — worlds of processes whose NICs reach device windows themselves, and worlds
// where a NIC cannot.
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/far_ranks.h"

namespace mk::test {
namespace {

constexpr WorldShape kWorld{2, 2};
constexpr int kSeeds = 8;
constexpr FarSettings kDmabufs{.has_dmabufs = true};

void choose_nic(const std::string& words) { setenv("MKERNEL_SOFT_NIC", words.c_str(), 1); }

// Every rank says the same of how its fabric reaches windows.
void expect_reach(FarRanks& ranks, const std::string& reach) {
  ranks.check = [reach](const World& world) {
    if (world.fabric_reach().find(reach) == std::string::npos) throw std::runtime_error(world.fabric_reach());
  };
}

void expect_nothing_staged(const FarCounts& counts) {
  EXPECT_EQ(counts.pins, 0);
  EXPECT_EQ(counts.reads, 0);
  EXPECT_EQ(counts.landings, 0);
  EXPECT_GT(counts.payments, 0);
  EXPECT_GT(counts.settles, 0);
  EXPECT_LE(counts.settles, counts.payments);
}

class DirectWorld : public testing::TestWithParam<const char*> {
 protected:
  std::string nic() const { return GetParam() == std::string("verbs") ? "soft_0" : "soft_efa_0"; }
};
INSTANTIATE_TEST_SUITE_P(Kinds, DirectWorld, testing::Values("verbs", "efa"),
                         [](const auto& info) { return std::string(info.param); });

// Operators in turn, so that each seed is one world.
TEST_P(DirectWorld, OperatorsAreRightWithEverySeedAndNothingIsStaged) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    choose_nic("seed=" + std::to_string(seed));
    FarRanks ranks(kWorld, GetParam(), static_cast<uint64_t>(seed), kDmabufs);
    expect_reach(ranks, "GPU memory by DMA-BUF");
    ASSERT_TRUE(operators_run_right(ranks, seed)) << "seed " << seed;
    expect_nothing_staged(ranks.counts());
  }
}

TEST_P(DirectWorld, LargeShardsAreRight) {
  choose_nic("seed=1");
  FarRanks ranks(kWorld, GetParam(), 1, kDmabufs);
  ranks.options.gpu_direct = "on";
  EXPECT_TRUE(a_large_shard_runs_right(ranks));
  expect_nothing_staged(ranks.counts());
}

TEST_P(DirectWorld, TakesPeermemWhereThereIsNoDmabuf) {
  choose_nic("seed=2 no_dmabuf=1 peermem=1");
  FarRanks ranks(kWorld, GetParam(), 2, kDmabufs);
  expect_reach(ranks, "GPU memory by peermem");
  EXPECT_TRUE(operators_run_right(ranks, 2));
  expect_nothing_staged(ranks.counts());
}

TEST_P(DirectWorld, IsStagedIfOneRankCannotAndSaysWhichAndWhy) {
  choose_nic("seed=3");
  FarRanks ranks(kWorld, GetParam(), 3, kDmabufs);
  ranks.prepare = [](int rank) {
    if (rank == 2) choose_nic("seed=3 no_dmabuf=1");
  };
  expect_reach(ranks, "by way of host memory: rank 2: " + nic() +
                          " cannot register 4096 bytes of GPU memory; by DMA-BUF: Operation not supported; by peermem: "
                          "Bad address");
  EXPECT_TRUE(operators_run_right(ranks, 3));
  EXPECT_GT(ranks.counts().landings, 0);
  EXPECT_EQ(ranks.counts().settles, 0);
}

TEST_P(DirectWorld, IsStagedIfItIsOff) {
  choose_nic("seed=4");
  FarRanks ranks(kWorld, GetParam(), 4, kDmabufs);
  ranks.options.gpu_direct = "off";
  expect_reach(ranks, "by way of host memory: gpu_direct is off");
  EXPECT_TRUE(operators_run_right(ranks, 4));
  EXPECT_GT(ranks.counts().landings, 0);
}

TEST_P(DirectWorld, ThatMustBeNamesTheRankThatCannotToAll) {
  choose_nic("seed=5");
  FarRanks ranks(kWorld, GetParam(), 5, kDmabufs);
  ranks.options.gpu_direct = "on";
  ranks.prepare = [](int rank) {
    if (rank == 1) choose_nic("seed=5 no_dmabuf=1");
  };
  EXPECT_TRUE(processes_do(kWorld.size(), [&](int rank) {
    return static_cast<bool>(throws(
        ErrorCode::kUnavailable, {"gpu_direct is on and cannot be, rank 1: " + nic(), "by DMA-BUF: ", "by peermem: "},
        [&] { ranks.join(rank); }));
  }));
}

// Workers believe signals that come before their bytes can be seen.
TEST_P(DirectWorld, AMutantThatDoesNotSettleIsWrong) {
  for (const int seed : {1, 2, 3}) {
    choose_nic("seed=" + std::to_string(seed));
    FarRanks ranks(kWorld, GetParam(), static_cast<uint64_t>(seed), {.has_dmabufs = true, .is_settling = false});
    const testing::AssertionResult right = operators_run_right(ranks, seed);
    EXPECT_FALSE(right) << "seed " << seed;
    EXPECT_EQ(std::string(right.message()).find("failed in rank"), std::string::npos) << right.message();
  }
}

TEST(DirectRanks, OverAFabricWithoutNicsAreAnErrorIfTheyMustBe) {
  FarRanks ranks(kWorld, "tcp", 1, kDmabufs);
  ranks.options.gpu_direct = "on";
  EXPECT_TRUE(processes_do(kWorld.size(), [&](int rank) {
    return static_cast<bool>(throws(ErrorCode::kUnavailable, {"gpu_direct is on", "tcp has no NICs that reach a GPU"},
                                    [&] { ranks.join(rank); }));
  }));
}

}  // namespace
}  // namespace mk::test

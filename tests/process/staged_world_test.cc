// SPDX-License-Identifier: MIT
// tests/process/staged_world_test.cc — worlds of processes whose windows no fabric reaches, over every fabric, seed
// after seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/support/far_ranks.h"

namespace mk::test {
namespace {

constexpr WorldShape kWorld{2, 2};
constexpr int kSeeds = 8;

class StagedWorld : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, StagedWorld, testing::Values("tcp", "shm", "verbs", "efa"),
                         [](const auto& info) { return std::string(info.param); });

// Operators in turn, so that each seed is one world.
TEST_P(StagedWorld, OperatorsAreRightWithEverySeed) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    setenv("MKERNEL_SOFT_NIC", ("seed=" + std::to_string(seed)).c_str(), 1);
    FarRanks ranks(kWorld, GetParam(), static_cast<uint64_t>(seed));
    ASSERT_TRUE(operators_run_right(ranks, seed)) << "seed " << seed;
    EXPECT_GT(ranks.counts().landings, 0);
  }
}

TEST_P(StagedWorld, ShardsLargerThanAllSlotsAreRight) {
  setenv("MKERNEL_SOFT_NIC", "seed=1", 1);
  FarRanks ranks(kWorld, GetParam(), 1);
  EXPECT_TRUE(a_large_shard_runs_right(ranks));
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/process/rdma_world_test.cc — worlds of processes over verbs and efa, on NICs in software, seed after seed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/ag_gemm_launch.h"
#include "tests/support/expect_error.h"
#include "tests/support/processes.h"
#include "tests/support/sum_launch.h"

namespace mk::test {
namespace {

constexpr int kSeeds = 30, kLaunches = 3;
constexpr Shape kShape{13, 21, 3};

void choose_seed(int seed) { setenv("MKERNEL_SOFT_NIC", ("seed=" + std::to_string(seed)).c_str(), 1); }

Options options_of(const char* net) {
  Options options;
  options.timeout_ms = 20'000;
  options.net = net;
  return options;
}

class RdmaWorld : public testing::TestWithParam<std::tuple<const char*, WorldShape>> {
 protected:
  const char* net() const { return std::get<0>(GetParam()); }
  WorldShape shape() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Worlds, RdmaWorld,
                         testing::Combine(testing::Values("verbs", "efa"),
                                          testing::Values(WorldShape{2, 2}, WorldShape{2, 4})),
                         [](const auto& info) {
                           return std::get<0>(info.param) + ("_" + name_of(std::get<1>(info.param)));
                         });

// Operators in turn, so that each seed is one world.
TEST_P(RdmaWorld, OperatorsAreRightWithEverySeed) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    choose_seed(seed);
    const size_t op = static_cast<size_t>(seed) % (std::size(kSumOps) + 1);
    if (op == std::size(kSumOps)) {
      std::vector<AgGemmLaunch> launches;
      for (int i = 0; i < kLaunches; ++i) launches.emplace_back(shape(), kShape, DType::kFp32, seed_of(seed, i));
      ASSERT_TRUE(processes_run_right(
          shape(), launches, [](World& world, std::span<const AgGemmArgs> args) { ag_gemm(world, args); },
          options_of(net())))
          << "seed " << seed;
      continue;
    }
    std::vector<SumLaunch> launches;
    for (int i = 0; i < kLaunches; ++i) {
      const SumCase sum{.op = kSumOps[op], .shape = kShape, .dtype = DType::kBf16};
      launches.emplace_back(shape(), sum, seed_of(seed, i));
    }
    ASSERT_TRUE(processes_run_right(
        shape(), launches, [&](World& world, std::span<const GemmArgs> args) { call(kSumOps[op], world, args, {}); },
        options_of(net())))
        << "seed " << seed;
  }
}

class RdmaRanks : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, RdmaRanks, testing::Values("verbs", "efa"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(RdmaRanks, ARankThatDiesIsNamedByItsRail) {
  choose_seed(3);
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(2, [&](int rank) {
    World world = World::join(id, rank, 2, 1, options_of(GetParam()));
    AgGemmLaunch launch({2, 1}, kShape, DType::kFp32, 1);
    const std::vector<AgGemmArgs> args = launch.args();
    ag_gemm(world, std::span(&args[rank], 1));
    world.synchronize();
    if (rank == 1) _exit(0);
    ag_gemm(world, std::span(&args[rank], 1));
    return static_cast<bool>(
        throws(ErrorCode::kFabric, {"the fabric of rank 0 failed", "rank 1"}, [&] { world.synchronize(); }));
  }));
}

TEST(RdmaRanks, TakeTheNicsThatOptionsName) {
  choose_seed(0);
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(2, [&](int rank) {
    Options options = options_of("verbs");
    options.timeout_ms = 2000;
    options.nics = "0=mlx5_9";
    return static_cast<bool>(refuses({"'mlx5_9'", "soft_0, soft_1"}, [&] { World::join(id, rank, 2, 1, options); }));
  }));
}

}  // namespace
}  // namespace mk::test

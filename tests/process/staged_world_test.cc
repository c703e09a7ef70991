// SPDX-License-Identifier: MIT
// tests/process/staged_world_test.cc — worlds of processes whose windows no fabric reaches, over every fabric, seed
// after seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/world_state.h"
#include "tests/support/ag_gemm_launch.h"
#include "tests/support/far_device.h"
#include "tests/support/processes.h"
#include "tests/support/sum_launch.h"

namespace mk::test {
namespace {

constexpr WorldShape kWorld{2, 2};
constexpr Shape kShape{13, 21, 3};
constexpr int kSeeds = 8, kLaunches = 3;

// Ranks that have this device, and count together what becomes of their windows.
class FarRanks {
 public:
  FarRanks(const WorldShape& shape, const std::string& net, uint64_t seed)
      : shape_(shape), seed_(seed), memory_(sizeof(FarCounts)), rendezvous_(std::make_unique<Rendezvous>()) {
    options_.timeout_ms = 20'000;
    options_.net = net;
  }

  // In the process of that rank.
  World join(int rank) {
    const auto timeout = std::chrono::milliseconds(options_.timeout_ms);
    auto bootstrap = rank == 0 ? std::make_unique<Bootstrap>(std::move(rendezvous_), shape_.size(), timeout)
                               : std::make_unique<Bootstrap>(rendezvous_->id(), rank, shape_.size(), timeout);
    auto device = std::make_unique<FarDevice>(rank, seed_of(seed_, rank), counts());
    return World(std::make_unique<runtime::WorldState>(shape_, std::move(bootstrap), std::move(device), options_));
  }

  FarCounts& counts() const { return *reinterpret_cast<FarCounts*>(memory_.data()); }

 private:
  WorldShape shape_;
  uint64_t seed_;
  Options options_;
  CommonMemory memory_;
  std::unique_ptr<Rendezvous> rendezvous_;
};

template <class Launch, class Call>
testing::AssertionResult far_ranks_run_right(FarRanks& ranks, std::vector<Launch>& launches, Call&& call) {
  auto right = processes_run_right(kWorld, launches, call, [&](int rank) { return ranks.join(rank); });
  const FarCounts& counts = ranks.counts();
  if (!right) return right;
  if (counts.landings == 0) return testing::AssertionFailure() << "nothing went through a Mover";
  if (counts.mapped != 0) return testing::AssertionFailure() << counts.mapped << " windows are still mapped";
  if (counts.freed_too_early != 0) return testing::AssertionFailure() << "a window was freed that a peer had mapped";
  if (counts.allocated == 0 || counts.forgotten != counts.allocated) {
    return testing::AssertionFailure() << counts.forgotten << " of " << counts.allocated << " windows were forgotten";
  }
  return right;
}

class StagedWorld : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, StagedWorld, testing::Values("tcp", "shm", "verbs", "efa"),
                         [](const auto& info) { return std::string(info.param); });

// Operators in turn, so that each seed is one world.
TEST_P(StagedWorld, OperatorsAreRightWithEverySeed) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    setenv("MKERNEL_SOFT_NIC", ("seed=" + std::to_string(seed)).c_str(), 1);
    FarRanks ranks(kWorld, GetParam(), static_cast<uint64_t>(seed));
    const size_t op = static_cast<size_t>(seed) % (std::size(kSumOps) + 1);
    if (op == std::size(kSumOps)) {
      std::vector<AgGemmLaunch> launches;
      for (int i = 0; i < kLaunches; ++i) launches.emplace_back(kWorld, kShape, DType::kFp32, seed_of(seed, i));
      const auto run = [](World& world, std::span<const AgGemmArgs> args) { ag_gemm(world, args); };
      ASSERT_TRUE(far_ranks_run_right(ranks, launches, run)) << "seed " << seed;
      continue;
    }
    std::vector<SumLaunch> launches;
    for (int i = 0; i < kLaunches; ++i) {
      const SumCase sum{.op = kSumOps[op], .shape = kShape, .dtype = DType::kBf16};
      launches.emplace_back(kWorld, sum, seed_of(seed, i));
    }
    const auto run = [&](World& world, std::span<const GemmArgs> args) { call(kSumOps[op], world, args, {}); };
    ASSERT_TRUE(far_ranks_run_right(ranks, launches, run)) << "seed " << seed;
  }
}

// More bytes than the slots of a rail hold at once.
TEST_P(StagedWorld, ShardsLargerThanAllSlotsAreRight) {
  setenv("MKERNEL_SOFT_NIC", "seed=1", 1);
  FarRanks ranks(kWorld, GetParam(), 1);
  std::vector<AgGemmLaunch> launches;
  launches.emplace_back(kWorld, Shape{512, 2, 4100}, DType::kFp32, 1);
  const auto run = [](World& world, std::span<const AgGemmArgs> args) { ag_gemm(world, args); };
  EXPECT_TRUE(far_ranks_run_right(ranks, launches, run));
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/transport/soft_nic_test.cc — the software NIC finds a fabric that relies on an order that is not there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/support/flag_fabric.h"
#include "transport/efa_queue.h"
#include "transport/verbs_queue.h"

namespace mk::test {
namespace {

constexpr uint64_t kBlocks = 60, kBlockBytes = 5000;
constexpr int kSeeds = 12;

std::unique_ptr<RdmaQueue> make_rc(const RdmaDevice& device, const RdmaSettings& settings, const RdmaDepths& depths) {
  return std::make_unique<VerbsQueue>(device, settings, depths);
}
std::unique_ptr<RdmaQueue> make_srd(const RdmaDevice& device, const RdmaSettings&, const RdmaDepths& depths) {
  return std::make_unique<EfaQueue>(device, depths);
}

void choose_seed(int seed) { setenv("MKERNEL_SOFT_NIC", ("seed=" + std::to_string(seed)).c_str(), 1); }

// In how many seeds a block was not there when its flag was.
int wrong_seeds(const char* device, QueueMaker make_queue, MemoryOrdering ordering) {
  int wrong = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    choose_seed(seed);
    FlagWorld world(device, make_queue, ordering, kBlocks * kBlockBytes);
    const int blocks = blocks_not_there(world, kBlocks, kBlockBytes);
    EXPECT_NE(blocks, -1) << "seed " << seed;
    wrong += blocks > 0 ? 1 : 0;
  }
  return wrong;
}

TEST(FlagAfterData, IsFoundOnSrdByEverySeed) {
  EXPECT_EQ(wrong_seeds("soft_efa_0", make_srd, MemoryOrdering::kStrict), kSeeds);
}

TEST(FlagAfterData, IsFoundOnRcWithRelaxedOrderingByEverySeed) {
  EXPECT_EQ(wrong_seeds("soft_0", make_rc, MemoryOrdering::kRelaxed), kSeeds);
}

TEST(FlagAfterData, IsRightOnRcWithStrictOrdering) {
  EXPECT_EQ(wrong_seeds("soft_0", make_rc, MemoryOrdering::kStrict), 0);
}

TEST(FlagAfterData, IsRightWhereNothingIsReordered) {
  choose_seed(0);
  FlagWorld world("soft_efa_0", make_srd, MemoryOrdering::kStrict, kBlocks * kBlockBytes);
  EXPECT_EQ(blocks_not_there(world, kBlocks, kBlockBytes), 0);
}

TEST(CountedImmediates, AreRightOnBothFabricsWithEverySeed) {
  for (const char* kind : {"verbs", "efa"}) {
    for (int seed = 1; seed <= kSeeds; ++seed) {
      choose_seed(seed);
      FabricWorld world(kind, {2, 1}, kBlocks * kBlockBytes);
      EXPECT_EQ(blocks_not_there(world, kBlocks, kBlockBytes), 0) << kind << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace mk::test

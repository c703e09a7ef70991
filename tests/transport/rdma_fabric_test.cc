// SPDX-License-Identifier: MIT
// tests/transport/rdma_fabric_test.cc — what verbs and efa do beyond the suite: failures in words, puts in parts.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <set>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/fabric_world.h"
#include "transport/rdma_message.h"

namespace mk::test {
namespace {

using std::chrono::milliseconds;

void ask_soft_nic(const std::string& words) { setenv("MKERNEL_SOFT_NIC", words.c_str(), 1); }

class RdmaFabric : public testing::TestWithParam<const char*> {
 protected:
  RdmaFabric() { ask_soft_nic("seed=5"); }
  static testing::AssertionResult fails_saying(Fabric& fabric, const std::string& words) {
    std::vector<uint64_t> completed;
    if (!busily([&] { return fabric.poll(completed) == PutResult::kFailed; })) {
      return testing::AssertionFailure() << "it does not fail";
    }
    if (fabric.failure().find(words) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "it says: " << fabric.failure();
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, RdmaFabric, testing::Values("verbs", "efa"),
                         [](const auto& info) { return std::string(info.param); });

TEST(RdmaMessage, AnImmediateHoldsWhatFitsAndNothingElse) {
  for (const SignalPayment& fits : {SignalPayment{0, 0, 1}, {1023, 131071, 16}, {7, 4711, 3}}) {
    const auto immediate = to_immediate(fits);
    ASSERT_TRUE(immediate.has_value());
    EXPECT_EQ(*immediate & kPartBit, 0u);
    EXPECT_EQ(to_payment(*immediate), fits);
  }
  for (const SignalPayment& does_not : {SignalPayment{1024, 0, 1},
                                        {0, 131072, 1},
                                        {0, 0, 0},
                                        {0, 0, 17},
                                        {0, 0, 1, 1},
                                        {7, 4711, 3, uint64_t{1} << 32}}) {
    EXPECT_FALSE(to_immediate(does_not).has_value());
  }
}

TEST_P(RdmaFabric, WhatDoesNotFitBesideTheBytesIsPaidAllTheSame) {
  constexpr uint32_t kFar = 200'000, kMuch = std::numeric_limits<uint32_t>::max();
  FabricWorld world(GetParam(), {2, 1}, 4 << 20);
  fill(world.data(0), 1000, 1);
  Command command = world.command(1, 0, 0, 1000);
  command.signal_window = command.to_window;
  command.signal_index = kFar;
  command.amount = kMuch;
  for (const uint64_t ticket : {0, 1}) ASSERT_TRUE(world.put(0, command, ticket));
  const auto* const signal = reinterpret_cast<const uint64_t*>(world.data(1)) + kFar;
  ASSERT_TRUE(world.run_until([&] { return HostAtomics::load_acquire(signal) == uint64_t{2} * kMuch; }));
  EXPECT_EQ(std::memcmp(world.data(0), world.data(1), 1000), 0);
}

// Where messages pass each other, its record may come before its bytes or after them.
TEST_P(RdmaFabric, AStampIsNeverThereBeforeItsBytes) {
  constexpr uint64_t kPuts = 60, kBytes = 5000;
  for (int seed = 1; seed <= 12; ++seed) {
    ask_soft_nic("seed=" + std::to_string(seed));
    FabricWorld world(GetParam(), {2, 1}, kPuts * kBytes);
    fill(world.data(0), kPuts * kBytes, 1);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < kPuts; ++i) {
      Command command = world.command(1, i * kBytes, i * kBytes, kBytes);
      command.stamp = i + 1;
      ASSERT_TRUE(world.put(0, command, i));
    }
    ASSERT_TRUE(world.run_until([&] {
      const uint64_t stamp = world.seen(1, 0);
      if (stamp == 0) return false;
      const uint64_t at = (stamp - 1) * kBytes;
      if (seen.insert(stamp).second) {
        EXPECT_EQ(std::memcmp(world.data(1) + at, world.data(0) + at, kBytes), 0) << "seed " << seed << ", " << stamp;
      }
      return stamp == kPuts;
    }));
  }
}

// More parts than a queue holds, and no signal before the last of them.
TEST_P(RdmaFabric, APutMayHaveManyMorePartsThanItsQueuesHold) {
  constexpr uint64_t kBytes = 100'000;
  PortSettings settings;
  settings.rdma.depth = 2;
  settings.rdma.most_bytes = 500;
  FabricWorld world(GetParam(), {2, 1}, kBytes, settings);
  fill(world.data(0), kBytes, 1);
  ASSERT_TRUE(world.put(0, world.command(1, 0, 0, kBytes), 7));
  ASSERT_TRUE(world.run_until([&] { return world.seen(1, 0) == 1; }));
  EXPECT_EQ(std::memcmp(world.data(0), world.data(1), kBytes), 0);
  EXPECT_TRUE(world.run_until([&] { return world.completed(0) == std::vector<uint64_t>{7}; }));
}

TEST_P(RdmaFabric, ALinkThatGoesDownIsAFailureThatNamesThePeer) {
  ask_soft_nic("seed=5 down_after=40");
  FabricWorld world(GetParam(), {2, 1}, 4096);
  PutResult result = PutResult::kSent;
  for (uint64_t i = 0; i < 10'000 && result != PutResult::kFailed; ++i) {
    result = world.fabric(0).put(world.command(1, 0, 0, 4096), i);
    world.poll_all();
  }
  EXPECT_EQ(result, PutResult::kFailed);
  EXPECT_NE(world.fabric(0).failure().find("a put of rank 0 to rank 1, 4096 bytes from window 0 + 0 to window 0 + 0"),
            std::string::npos)
      << world.fabric(0).failure();
  EXPECT_NE(world.fabric(0).failure().find("the peer does not answer"), std::string::npos);
}

TEST_P(RdmaFabric, APeerWithoutRoomIsNamedAtTheDeadline) {
  ask_soft_nic("seed=5 lose_receives=1000000");
  PortSettings settings;
  settings.deadline = milliseconds{300};
  FabricWorld world(GetParam(), {2, 1}, 64, settings);
  ASSERT_TRUE(world.put(0, world.command(1, 0, 0, 8), 0));
  EXPECT_TRUE(fails_saying(world.fabric(0), "rank 1 took nothing from rank 0 for 300 ms"));
  EXPECT_EQ(world.seen(1, 0), 0u);
}

TEST_P(RdmaFabric, AFabricThatFailsTakesItsPeersAlong) {
  FabricWorld world(GetParam(), {2, 1}, 64);
  world.fabric(0).put(world.command(1, 0, 0, 65), 0);
  EXPECT_TRUE(fails_saying(world.fabric(1), "rank 0 closed its end of the fabric to rank 1"));
}

TEST_P(RdmaFabric, RanksOffTheRailAreNotConnected) {
  FabricWorld world(GetParam(), {2, 2}, 64);
  EXPECT_EQ(world.fabric(0).put(world.command(3, 0, 0, 8), 0), PutResult::kFailed);
  EXPECT_NE(world.fabric(0).failure().find("rank 0 has no queue pair to rank 3"), std::string::npos);
}

}  // namespace
}  // namespace mk::test

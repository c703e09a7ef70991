// SPDX-License-Identifier: MIT
// tests/transport/fabric_suite_test.cc — what transport/fabric.h promises, asked of every fabric there is.  For stamps
// see stamp_suite_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <random>

#include "tests/support/fabric_types.h"
#include "tests/support/fabric_world.h"

namespace mk::test {
namespace {

constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
constexpr WorldShape kTwoNodes{2, 1};

class FabricSuite : public FabricTest {};
class ApartFabricSuite : public FabricTest {};
INSTANTIATE_TEST_SUITE_P(Fabrics, FabricSuite, testing::ValuesIn(all_fabrics()), kFabricLabel);
INSTANTIATE_TEST_SUITE_P(Fabrics, ApartFabricSuite, testing::ValuesIn(apart_fabrics()), kFabricLabel);

TEST(FabricKinds, AreAllInTheSuite) {
  const std::vector<FabricType> tested = all_fabrics();
  for (const FabricKind& kind : fabric_kinds()) {
    EXPECT_GT(std::ranges::count(tested, kind.name, &FabricType::kind), 0) << kind.name;
  }
}

TEST_P(FabricSuite, APutCopiesItsBytesAndNothingAround) {
  constexpr uint64_t kBytes = 4 << 20;
  FabricWorld world = make_world(kTwoNodes, kBytes);
  fill(world.data(0), kBytes, 1);
  std::vector<std::byte> expected(kBytes);
  std::mt19937_64 random(7);
  uint64_t at = 0, num_puts = 0;
  for (const uint64_t most : {64u, 5000u, 300000u}) {
    for (int i = 0; i < 40; ++i, ++num_puts) {
      const uint64_t bytes = 1 + random() % most;
      const uint64_t to = at + 1 + random() % 9;
      if (to + bytes > kBytes) break;
      const uint64_t from = random() % (kBytes - bytes + 1);
      ASSERT_TRUE(world.put(0, world.command(1, from, to, bytes), num_puts));
      std::memcpy(expected.data() + to, world.data(0) + from, bytes);
      at = to + bytes;
    }
  }
  ASSERT_TRUE(world.run_until([&] { return world.seen(1, 0) == num_puts; }));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), world.data(1)));
}

TEST_P(FabricSuite, APutAddsItsAmountToItsSignalOnly) {
  FabricWorld world = make_world(kTwoNodes, 64);
  Command command = world.command(1, 0, 0, 8, 2);
  command.amount = 5;
  ASSERT_TRUE(world.put(0, command, 0));
  ASSERT_TRUE(world.put(0, command, 1));
  ASSERT_TRUE(world.run_until([&] { return world.completed(0).size() == 2 && world.seen(1, 2) >= 10; }));
  for (uint32_t i = 0; i < FabricWorld::kSignals; ++i) EXPECT_EQ(world.seen(1, i), i == 2 ? 10u : 0u) << i;
}

TEST_P(FabricSuite, APutOfNoBytesOnlySignals) {
  constexpr uint64_t kBytes = 64;
  FabricWorld world = make_world(kTwoNodes, kBytes);
  fill(world.data(0), kBytes, 1);
  ASSERT_TRUE(world.put(0, world.command(1, kBytes, kBytes, 0, 3), 0));
  ASSERT_TRUE(world.run_until([&] { return world.seen(1, 3) == 1; }));
  EXPECT_TRUE(std::all_of(world.data(1), world.data(1) + kBytes, [](std::byte b) { return b == std::byte{}; }));
}

TEST_P(FabricSuite, EveryTicketComesBackOnce) {
  constexpr uint64_t kPuts = 300;
  FabricWorld world = make_world(kTwoNodes, 4096);
  std::vector<uint64_t> expected;
  for (uint64_t ticket = 1000; ticket < 1000 + kPuts; ++ticket) {
    ASSERT_TRUE(world.put(0, world.command(1, 0, 0, ticket % 4096), ticket));
    expected.push_back(ticket);
  }
  ASSERT_TRUE(world.run_until([&] { return world.completed(0).size() >= kPuts && world.seen(1, 0) == kPuts; }));
  for (int i = 0; i < 100; ++i) world.poll_all();
  std::ranges::sort(world.completed(0));
  EXPECT_EQ(world.completed(0), expected);
}

TEST_P(FabricSuite, AFullFabricTakesPutsAgainWhenItIsPolled) {
  constexpr uint64_t kMost = 100'000;
  FabricWorld world = make_world(kTwoNodes, 4096);
  uint64_t sent = 0;
  PutResult result = PutResult::kSent;
  while (sent < kMost && (result = world.fabric(0).put(world.command(1, 0, 0, 256), sent)) == PutResult::kSent) ++sent;
  ASSERT_NE(result, PutResult::kFailed) << world.fabric(0).failure();
  EXPECT_GT(sent, 0u);
  ASSERT_TRUE(world.put(0, world.command(1, 0, 0, 256), sent++));
  EXPECT_TRUE(world.run_until([&] { return world.seen(1, 0) == sent && world.completed(0).size() == sent; }));
}

// The source is written anew as soon as its put is complete, whether it has landed or not.
TEST_P(FabricSuite, WhatArrivesIsWhatTheSourceHeldUntilItsPutCompleted) {
  constexpr uint64_t kBytes = 150'000, kPuts = 20;
  FabricWorld world = make_world(kTwoNodes, kBytes * kPuts);
  for (uint64_t i = 0; i < kPuts; ++i) {
    fill(world.data(0), kBytes, i);
    ASSERT_TRUE(world.put(0, world.command(1, 0, i * kBytes, kBytes), i));
    ASSERT_TRUE(world.run_until([&] { return world.completed(0).size() == i + 1; }));
  }
  std::memset(world.data(0), 0xff, kBytes);
  ASSERT_TRUE(world.run_until([&] { return world.seen(1, 0) == kPuts; }));
  std::vector<std::byte> expected(kBytes);
  for (uint64_t i = 0; i < kPuts; ++i) {
    fill(expected.data(), kBytes, i);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), world.data(1) + i * kBytes)) << "put " << i;
  }
}

// One thread polls each end, and a worker reads plain memory once it has seen the signal.
TEST_P(FabricSuite, WhoSeesASignalSeesTheBytesOfItsPut) {
  constexpr uint64_t kPuts = 200, kBytes = 3000;
  FabricWorld world = make_world(kTwoNodes, kPuts * kBytes);
  fill(world.data(0), kPuts * kBytes, 3);
  std::vector<std::byte> expected(world.data(0), world.data(0) + kPuts * kBytes);
  std::atomic<bool> done = false;
  std::atomic<int> wrong = 0, missing = 0;
  std::thread worker([&] {
    for (uint32_t i = 0; i < kPuts; ++i) {
      if (!eventually([&] { return world.seen(1, i) >= 1; })) {
        ++missing;
        break;
      }
      if (!std::equal(expected.begin() + i * kBytes, expected.begin() + (i + 1) * kBytes, world.data(1) + i * kBytes)) {
        ++wrong;
      }
    }
    done = true;
  });
  std::thread receiver([&] {
    std::vector<uint64_t> none;
    while (!done) world.fabric(1).poll(none);
  });
  std::vector<uint64_t> completed;
  uint64_t sent = 0;
  while (!done) {
    const auto i = static_cast<uint32_t>(sent);
    if (sent < kPuts &&
        world.fabric(0).put(world.command(1, i * kBytes, i * kBytes, kBytes, i), i) == PutResult::kSent) {
      ++sent;
    } else {
      world.fabric(0).poll(completed);
    }
  }
  worker.join();
  receiver.join();
  EXPECT_EQ(missing, 0) << world.fabric(0).failure() << world.fabric(1).failure();
  EXPECT_EQ(wrong, 0);
  for (uint32_t i = 0; i < kPuts; ++i) EXPECT_EQ(world.seen(1, i), 1u) << i;
}

TEST_P(FabricSuite, BothDirectionsMoveAtOnce) {
  constexpr uint64_t kPart = 256 << 10, kPuts = 16;
  FabricWorld world = make_world(kTwoNodes, 2 * kPart * kPuts);  // the lower half is sent, the upper one received
  for (const int rank : {0, 1}) fill(world.data(rank), kPart * kPuts, rank);
  std::atomic<int> num_through =
      0;  // who is through polls on: what it answers or lands may be what the other waits for
  const auto play = [&](int rank) {
    std::vector<uint64_t> completed;
    uint64_t sent = 0;
    bool is_through = false;
    EXPECT_TRUE(busily([&] {
      const uint64_t to = kPart * (kPuts + sent);
      if (sent < kPuts &&
          world.fabric(rank).put(world.command(1 - rank, kPart * sent, to, kPart), sent) == PutResult::kSent) {
        ++sent;
      }
      const bool well = world.fabric(rank).poll(completed) == PutResult::kSent;
      if (!is_through && completed.size() == kPuts && world.seen(rank, 0) == kPuts) {
        is_through = true;
        ++num_through;
      }
      return !well || num_through == 2;
    }));
    EXPECT_EQ(world.fabric(rank).failure(), "");
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  for (const int rank : {0, 1}) {
    EXPECT_EQ(std::memcmp(world.data(rank) + kPart * kPuts, world.data(1 - rank), kPart * kPuts), 0) << rank;
  }
}

TEST_P(FabricSuite, EveryNodeReachesEveryOtherOnItsRail) {
  constexpr uint64_t kBytes = 1000;
  for (const WorldShape shape : {WorldShape{2, 2}, {3, 1}, {5, 1}, {8, 1}}) {
    const uint64_t half = kBytes * shape.size();
    FabricWorld world = make_world(shape, 2 * half);
    std::vector<uint64_t> sent(shape.size());
    for (int from = 0; from < shape.size(); ++from) fill(world.data(from), half, from);
    for (int from = 0; from < shape.size(); ++from) {
      for (int node = 0; node < shape.nodes; ++node) {
        const int to = shape.rank_at(node, shape.local_of(from));
        if (to == from) continue;
        const auto signal = static_cast<uint32_t>(from);
        ASSERT_TRUE(world.put(from, world.command(to, to * kBytes, half + from * kBytes, kBytes, signal), 0));
        ASSERT_TRUE(world.run_until([&] { return world.seen(to, signal) == 1; })) << from << " to " << to;
        EXPECT_EQ(std::memcmp(world.data(to) + half + from * kBytes, world.data(from) + to * kBytes, kBytes), 0);
      }
    }
  }
}

TEST_P(FabricSuite, OffsetsMayBeBeyondFourGiB) {
  constexpr uint64_t kFar = (uint64_t{4} << 30) + 12345, kBytes = 70'000;
  FabricWorld world = make_world(kTwoNodes, kFar + (1 << 20));
  fill(world.data(0) + kFar, kBytes, 1);
  ASSERT_TRUE(world.put(0, world.command(1, kFar, kFar + 77, kBytes), 0));
  ASSERT_TRUE(world.run_until([&] { return world.seen(1, 0) == 1; }));
  EXPECT_EQ(std::memcmp(world.data(1) + kFar + 77, world.data(0) + kFar, kBytes), 0);
}

TEST_P(FabricSuite, ACommandThatPointsOutsideItsWindowFailsTheFabricAndTouchesNothing) {
  constexpr uint64_t kBytes = 64;
  using Damage = void (*)(Command&);
  constexpr Damage kDamages[] = {
      [](Command& c) { c.from_offset = 57; },
      [](Command& c) { c.to_offset = 57; },
      [](Command& c) { c.from_offset = kHuge; },
      [](Command& c) { c.to_offset = kHuge; },
      [](Command& c) { c.bytes = kHuge; },
      [](Command& c) { c.from_window = 99; },
      [](Command& c) { c.to_window = 99; },
      [](Command& c) { c.signal_window = 99; },
      [](Command& c) { c.to_rank = 2; },
      [](Command& c) { c.to_rank = 0xffffffff; },
      [](Command& c) { c.signal_index = 0xffffffff; },
      [](Command& c) { c.signal_index = FabricWorld::kSignals; },
  };
  for (size_t i = 0; i < std::size(kDamages); ++i) {
    FabricWorld world = make_world(kTwoNodes, kBytes);
    fill(world.data(0), kBytes, 1);
    Command command = world.command(1, 0, 0, 8);
    kDamages[i](command);
    EXPECT_EQ(world.fabric(0).put(command, 0), PutResult::kFailed) << "case " << i;
    EXPECT_NE(world.fabric(0).failure().find("rank 0"), std::string::npos) << world.fabric(0).failure();
    for (int n = 0; n < 10; ++n) world.poll_all();
    EXPECT_TRUE(std::all_of(world.data(1), world.data(1) + kBytes, [](std::byte b) { return b == std::byte{}; }));
    EXPECT_EQ(world.seen(1, 0), 0u);
  }
}

TEST_P(FabricSuite, AfterAFailureEveryCallSaysSoAndWhy) {
  FabricWorld world = make_world(kTwoNodes, 64);
  ASSERT_TRUE(world.put(0, world.command(1, 0, 0, 8), 0));
  ASSERT_EQ(world.fabric(0).put(world.command(1, 0, 0, kHuge), 1), PutResult::kFailed);
  const std::string reason = world.fabric(0).failure();
  EXPECT_NE(reason, "");
  std::vector<uint64_t> completed;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(world.fabric(0).put(world.command(1, 0, 0, 8, 1), 2), PutResult::kFailed);
    EXPECT_EQ(world.fabric(0).poll(completed), PutResult::kFailed);
    EXPECT_EQ(world.fabric(0).failure(), reason);
    world.fabric(0).nap(std::chrono::microseconds{1});
  }
  EXPECT_EQ(world.seen(1, 1), 0u);
}

TEST_P(ApartFabricSuite, APeerThatGoesAwayIsAFailureThatNamesIt) {
  FabricWorld world = make_world({3, 1}, 64);
  ASSERT_TRUE(world.put(0, world.command(1, 0, 0, 8), 0));
  ASSERT_TRUE(world.run_until([&] { return world.seen(1, 0) == 1; }));
  world.take_fabric(1).reset();
  std::vector<uint64_t> completed;
  ASSERT_TRUE(busily([&] { return world.fabric(0).poll(completed) == PutResult::kFailed; }));
  EXPECT_NE(world.fabric(0).failure().find("rank 1"), std::string::npos) << world.fabric(0).failure();
  EXPECT_EQ(world.fabric(0).put(world.command(2, 0, 0, 8), 1), PutResult::kFailed);
}

// Puts of many sizes under way when the peer goes.
TEST_P(ApartFabricSuite, APeerThatGoesAwayInTheMiddleIsAFailureToo) {
  constexpr uint64_t kBytes = 32 << 20;
  FabricWorld world = make_world(kTwoNodes, kBytes);
  for (uint64_t i = 0; i < 4; ++i) world.fabric(0).put(world.command(1, 0, 0, kBytes), i);
  world.poll_all();
  world.take_fabric(1).reset();
  std::vector<uint64_t> completed;
  EXPECT_TRUE(busily([&] { return world.fabric(0).poll(completed) == PutResult::kFailed; }));
  EXPECT_NE(world.fabric(0).failure().find("rank 1"), std::string::npos) << world.fabric(0).failure();
}

}  // namespace
}  // namespace mk::test

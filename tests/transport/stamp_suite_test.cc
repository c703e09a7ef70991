// SPDX-License-Identifier: MIT
// tests/transport/stamp_suite_test.cc — what transport/fabric.h promises of stamps, asked of every fabric there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <set>

#include "core/stamp.h"
#include "tests/support/fabric_types.h"
#include "tests/support/fabric_world.h"

namespace mk::test {
namespace {

constexpr WorldShape kTwoNodes{2, 1};
constexpr uint64_t kPartsBytes = (1 << 20) + 77;  // in parts wherever a fabric has any

class StampSuite : public FabricTest {
 protected:
  // From rank 0 to rank 1, between the same places.  The amount is not to be used.
  static Command stamped(const FabricWorld& world, uint64_t at, uint64_t bytes, uint32_t signal, uint64_t stamp) {
    Command command = world.command(1, at, at, bytes, signal);
    command.amount = 3;
    command.stamp = stamp;
    return command;
  }
  static bool is_there(const FabricWorld& world, uint64_t at, uint64_t bytes) {
    return std::memcmp(world.data(1) + at, world.data(0) + at, bytes) == 0;
  }
  // For payments that follow bytes which are there already, or that should not come at all.
  static void poll_on(FabricWorld& world) {
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(world.poll_all());
  }
};
INSTANTIATE_TEST_SUITE_P(Fabrics, StampSuite, testing::ValuesIn(all_fabrics()), kFabricLabel);

TEST_P(StampSuite, AStampSetsItsSignalOnlyHoweverOftenItComes) {
  constexpr uint64_t kStamp = stamp_of(3, 5);
  FabricWorld world = make_world(kTwoNodes, 64);
  for (const uint64_t ticket : {0, 1, 2}) ASSERT_TRUE(world.put(0, stamped(world, 0, 8, 2, kStamp), ticket));
  ASSERT_TRUE(world.run_until([&] { return world.completed(0).size() == 3 && world.seen(1, 2) != 0; }));
  poll_on(world);
  for (uint32_t i = 0; i < FabricWorld::kSignals; ++i) EXPECT_EQ(world.seen(1, i), i == 2 ? kStamp : 0u) << i;
}

TEST_P(StampSuite, AStampOfNoBytesOnlySignals) {
  constexpr uint64_t kBytes = 64;
  FabricWorld world = make_world(kTwoNodes, kBytes);
  fill(world.data(0), kBytes, 1);
  Command command = stamped(world, kBytes, 0, 3, stamp_of(1, 0));
  command.amount = 0;
  ASSERT_TRUE(world.put(0, command, 0));
  ASSERT_TRUE(world.run_until([&] { return world.seen(1, 3) == stamp_of(1, 0); }));
  EXPECT_TRUE(std::all_of(world.data(1), world.data(1) + kBytes, [](std::byte b) { return b == std::byte{}; }));
}

// Any word but 0 is a stamp, also one that would fit beside the bytes.
TEST_P(StampSuite, ALaterStampReplacesAnEarlierAlsoWhereLaunchesAreSkipped) {
  constexpr uint64_t kStamps[] = {1, stamp_of(1, 0xffffffff), stamp_of(2, 0), stamp_of(1'000'000, 7), ~uint64_t{0}};
  FabricWorld world = make_world(kTwoNodes, 1000 * std::size(kStamps));
  fill(world.data(0), 1000 * std::size(kStamps), 1);
  for (uint64_t i = 0; i < std::size(kStamps); ++i) {
    ASSERT_TRUE(world.put(0, stamped(world, 1000 * i, 1000, 0, kStamps[i]), i));
    ASSERT_TRUE(world.run_until([&] { return world.seen(1, 0) == kStamps[i]; })) << i << ": " << world.seen(1, 0);
    EXPECT_TRUE(is_there(world, 1000 * i, 1000)) << i;
  }
}

// Put from the largest to the smallest, and in any order; some have no bytes, some go in parts.  That all have landed
// their bytes tell, but for the payments that follow.
TEST_P(StampSuite, OfStampsThatLandInAnyOrderTheLargestStaysAndNoneMakesTheSignalShrink) {
  constexpr uint32_t kStamps = 40, kOrders = 4;
  constexpr uint64_t kSizes[] = {8, 0, 3000, 90'000};
  constexpr uint64_t kMost = 90'000;
  FabricWorld world = make_world(kTwoNodes, kOrders * kStamps * kMost);
  std::vector<uint64_t> largest(kOrders);
  const auto signals_grow = [&] {
    for (uint32_t order = 0; order < kOrders; ++order) {
      const uint64_t now = world.seen(1, order);
      EXPECT_GE(now, largest[order]) << "signal " << order;
      largest[order] = std::max(largest[order], now);
    }
  };
  std::vector<Command> puts;
  for (uint32_t order = 0; order < kOrders; ++order) {
    std::vector<uint32_t> numbers(kStamps);
    for (uint32_t i = 0; i < kStamps; ++i) numbers[i] = kStamps - i;
    if (order > 0) std::ranges::shuffle(numbers, std::mt19937_64(order));
    for (const uint32_t number : numbers) {
      const uint64_t at = puts.size() * kMost;
      fill(world.data(0) + at, kSizes[number % 4], puts.size() + 1);
      puts.push_back(stamped(world, at, kSizes[number % 4], order, stamp_of(number, 1000 - number)));
    }
  }
  for (const Command& put : puts) {
    ASSERT_TRUE(world.put(0, put, 0));
    signals_grow();
  }
  ASSERT_TRUE(world.run_until([&] {
    signals_grow();
    return world.completed(0).size() == puts.size() &&
           std::ranges::all_of(puts, [&](const Command& put) { return is_there(world, put.to_offset, put.bytes); });
  }));
  poll_on(world);
  ASSERT_TRUE(world.run_until([&] {
    signals_grow();
    return std::ranges::all_of(largest, [](uint64_t stamp) { return epoch_in(stamp) == kStamps; });
  }));
  poll_on(world);
  for (uint32_t order = 0; order < kOrders; ++order) {
    EXPECT_EQ(world.seen(1, order), stamp_of(kStamps, 1000 - kStamps)) << order;
  }
}

TEST_P(StampSuite, StampsAndAmountsGoSideBySideOnDifferentSignals) {
  constexpr uint32_t kRounds = 50;
  FabricWorld world = make_world(kTwoNodes, 4096);
  for (uint32_t i = 1; i <= kRounds; ++i) {
    Command adding = world.command(1, 0, 0, i % 3 * 100, 0);
    adding.amount = i;
    ASSERT_TRUE(world.put(0, adding, i));
    ASSERT_TRUE(world.put(0, stamped(world, 0, i % 2 * 100, 1, stamp_of(i, i)), i));
    ASSERT_TRUE(world.put(0, world.command(1, 0, 0, 8, 2), i));
  }
  constexpr uint64_t kSum = kRounds * (kRounds + 1) / 2;
  EXPECT_TRUE(world.run_until([&] {
    return world.seen(1, 0) >= kSum && world.seen(1, 1) >= stamp_of(kRounds, kRounds) && world.seen(1, 2) >= kRounds;
  }));
  poll_on(world);
  EXPECT_EQ(world.seen(1, 0), kSum);
  EXPECT_EQ(world.seen(1, 1), stamp_of(kRounds, kRounds));
  EXPECT_EQ(world.seen(1, 2), kRounds);
}

// Looked at after each poll, as soon as a stamp is there.
TEST_P(StampSuite, AStampOnAPutInPartsComesAfterAllOfThem) {
  constexpr uint32_t kPuts = 6;
  FabricWorld world = make_world(kTwoNodes, kPuts * kPartsBytes);
  fill(world.data(0), kPuts * kPartsBytes, 2);
  std::set<uint32_t> missing;
  uint32_t num_sent = 0;
  ASSERT_TRUE(world.run_until([&] {
    const uint64_t at = num_sent * kPartsBytes;
    if (num_sent < kPuts && world.fabric(0).put(stamped(world, at, kPartsBytes, num_sent, stamp_of(9, num_sent)),
                                                num_sent) == PutResult::kSent) {
      missing.insert(num_sent++);
    }
    std::erase_if(missing, [&](uint32_t i) {
      if (world.seen(1, i) == 0) return false;
      EXPECT_EQ(world.seen(1, i), stamp_of(9, i));
      EXPECT_TRUE(is_there(world, i * kPartsBytes, kPartsBytes)) << i;
      return true;
    });
    return num_sent == kPuts && missing.empty();
  }));
}

// One thread polls each end, and a worker reads plain memory once it has seen a stamp, the last bytes first: copies end
// there.  All puts stamp one signal, so the worker may miss some; what it sees says which bytes it may read.
TEST_P(StampSuite, WhoSeesAStampSeesTheBytesOfItsPut) {
  constexpr uint32_t kPuts = 100;
  constexpr uint64_t kLarge = 512 << 10, kSmall = 3000, kTail = 64;
  const auto bytes_of = [](uint32_t put) { return put % 10 == 5 ? kLarge : kSmall; };
  FabricWorld world = make_world(kTwoNodes, kPuts * kLarge);
  for (uint32_t i = 0; i < kPuts; ++i) fill(world.data(0) + i * kLarge, bytes_of(i), i + 1);
  std::atomic<bool> done = false;
  std::atomic<int> wrong = 0;
  std::thread worker([&] {
    uint64_t last = 0;
    EXPECT_TRUE(eventually([&] {
      const uint64_t stamp = world.seen(1, 0);
      if (stamp == last) return false;
      const uint32_t put = low_in(stamp);
      if (stamp < last || put >= kPuts || stamp != stamp_of(put + 1, put)) return ++wrong > 0;
      last = stamp;
      const uint64_t at = put * kLarge, end = at + bytes_of(put);
      wrong += is_there(world, end - kTail, kTail) && is_there(world, at, end - at) ? 0 : 1;
      return put + 1 == kPuts;
    }));
    done = true;
  });
  std::thread receiver([&] {
    std::vector<uint64_t> none;
    while (!done) world.fabric(1).poll(none);
  });
  std::vector<uint64_t> completed;
  for (uint32_t sent = 0; !done;) {
    const Command next = stamped(world, sent % kPuts * kLarge, bytes_of(sent), 0, stamp_of(sent + 1, sent));
    if (sent < kPuts && world.fabric(0).put(next, sent) == PutResult::kSent) {
      ++sent;
    } else {
      world.fabric(0).poll(completed);
    }
  }
  worker.join();
  receiver.join();
  EXPECT_EQ(wrong, 0) << world.fabric(0).failure() << world.fabric(1).failure();
}

}  // namespace
}  // namespace mk::test

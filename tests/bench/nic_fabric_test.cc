// SPDX-License-Identifier: MIT
// tests/bench/nic_fabric_test.cc — the host's side of the NIC: what is posted, when it is full, whose tickets return.
#include "bench/nic_fabric.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <thread>

#include "base/atomics.h"

namespace mk::bench {
namespace {

constexpr uint64_t kBytes = 128;
constexpr uint32_t kCapacity = 4;

class Nic : public testing::Test {
 protected:
  struct Rank {
    alignas(16) std::array<std::byte, kBytes> data{};
    std::array<uint64_t, 2> signals{};
  };

  Nic() {
    data_window = windows.add({ranks[0].data.data(), ranks[1].data.data()}, kBytes);
    signal_window = windows.add({bytes_of(ranks[0].signals), bytes_of(ranks[1].signals)}, sizeof(Rank::signals));
  }

  static std::byte* bytes_of(std::array<uint64_t, 2>& words) { return reinterpret_cast<std::byte*>(words.data()); }

  // From rank 0 to rank 1.
  Command command(uint64_t from, uint64_t to, uint64_t bytes, uint32_t amount = 1) const {
    return {from, to, bytes, data_window, data_window, signal_window, 0, amount, 1, 0, 0};
  }

  NicQueue queue() { return {.puts = puts.data(), .posted = &posted, .completed = &completed, .capacity = kCapacity}; }

  void complete(uint64_t count) { HostAtomics::store_release(&completed, count); }

  std::vector<uint64_t> polled() {
    std::vector<uint64_t> tickets;
    EXPECT_EQ(fabric.poll(tickets), PutResult::kSent);
    return tickets;
  }

  std::array<Rank, 2> ranks;
  WindowRegistry windows;
  uint32_t data_window = 0;
  uint32_t signal_window = 0;
  std::array<NicPut, kCapacity> puts;
  uint64_t posted = 0;
  uint64_t completed = 0;
  NicFabric fabric{queue(), windows, 0};
};

TEST_F(Nic, APostedPutSaysWhatItsCommandSaid) {
  ASSERT_EQ(fabric.put(command(16, 32, 48, 5), 7), PutResult::kSent);
  EXPECT_EQ(posted, 1u);
  EXPECT_EQ(puts[0].from, ranks[0].data.data() + 16);
  EXPECT_EQ(puts[0].to, ranks[1].data.data() + 32);
  EXPECT_EQ(puts[0].bytes, 48u);
  EXPECT_EQ(puts[0].signal, &ranks[1].signals[0]);
  EXPECT_EQ(puts[0].pays, (Payment{5, 0}));
}

TEST_F(Nic, APostedPutCarriesItsStamp) {
  Command stamped = command(0, 0, 16);
  stamped.stamp = 1234567890123;
  ASSERT_EQ(fabric.put(stamped, 0), PutResult::kSent);
  EXPECT_EQ(puts[0].pays.stamp, 1234567890123u);
}

TEST_F(Nic, AFullQueueTakesNoPutAndKeepsThoseItHas) {
  for (uint64_t i = 0; i < kCapacity; ++i) ASSERT_EQ(fabric.put(command(16 * i, 0, 16), i), PutResult::kSent);
  EXPECT_EQ(fabric.put(command(64, 0, 16), kCapacity), PutResult::kFull);
  EXPECT_EQ(posted, kCapacity);
  for (uint64_t i = 0; i < kCapacity; ++i) EXPECT_EQ(puts[i].from, ranks[0].data.data() + 16 * i) << i;
}

TEST_F(Nic, ATicketComesBackOnceAndNotBeforeItsPutIsCompleted) {
  for (const uint64_t ticket : {10, 20, 30}) ASSERT_EQ(fabric.put(command(0, 0, 16), ticket), PutResult::kSent);
  EXPECT_EQ(polled(), std::vector<uint64_t>{});
  complete(2);
  EXPECT_EQ(polled(), (std::vector<uint64_t>{10, 20}));
  EXPECT_EQ(polled(), std::vector<uint64_t>{});
  complete(3);
  EXPECT_EQ(polled(), std::vector<uint64_t>{30});
}

// A thread plays the NIC; under ThreadSanitizer it also shows that a put is whole before it is counted.
TEST_F(Nic, EveryPutIsSeenOnceAndWholeThoughPlacesAreUsedAgain) {
  constexpr uint64_t kPuts = 1000;
  std::thread nic([&] {
    for (uint64_t done = 0; done < kPuts;) {
      for (const uint64_t end = HostAtomics::load_acquire(&posted); done < end;) {
        const NicPut put = *queue().place(done);
        EXPECT_EQ(put.pays.amount, done);
        EXPECT_EQ(put.bytes, 16 * (done % 8));
        HostAtomics::add_release(put.signal, put.pays.amount);
        complete(++done);
      }
      std::this_thread::yield();
    }
  });
  std::vector<uint64_t> tickets;
  for (uint64_t i = 0; i < kPuts;) {
    const PutResult result = fabric.put(command(0, 0, 16 * (i % 8), static_cast<uint32_t>(i)), i);
    if (result == PutResult::kSent) ++i;
    ASSERT_EQ(fabric.poll(tickets), PutResult::kSent);
    if (result == PutResult::kFull) std::this_thread::yield();
  }
  nic.join();
  ASSERT_EQ(fabric.poll(tickets), PutResult::kSent);
  std::vector<uint64_t> expected(kPuts);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(tickets, expected);
  EXPECT_EQ(HostAtomics::load_acquire(&ranks[1].signals[0]), kPuts * (kPuts - 1) / 2);
}

TEST_F(Nic, APutOfNoBytesMayPointAnywhereInItsWindow) {
  EXPECT_EQ(fabric.put(command(kBytes, 3, 0), 0), PutResult::kSent);
  EXPECT_EQ(puts[0].bytes, 0u);
}

TEST_F(Nic, WhatTheCopyEngineCannotCopyFailsTheFabric) {
  for (const Command& bad : {command(8, 0, 16), command(0, 8, 16), command(0, 0, 8), command(0, 16, kBytes)}) {
    NicFabric fresh(queue(), windows, 0);
    EXPECT_EQ(fresh.put(bad, 0), PutResult::kFailed);
    EXPECT_FALSE(fresh.failure().empty());
    std::vector<uint64_t> tickets;
    EXPECT_EQ(fresh.put(command(0, 0, 16), 1), PutResult::kFailed);
    EXPECT_EQ(fresh.poll(tickets), PutResult::kFailed);
    EXPECT_EQ(posted, 0u);
  }
}

}  // namespace
}  // namespace mk::bench

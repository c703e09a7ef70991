// SPDX-License-Identifier: MIT
// tests/transport/loopback_test.cc — the loopback fabric lands puts, and fails where a put leaves its window.
#include "transport/loopback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

namespace mk::test {
namespace {

constexpr uint64_t kBytes = 64;
constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();

class Loopback : public testing::Test {
 protected:
  struct Rank {
    std::array<std::byte, kBytes> data{};
    std::array<uint64_t, 4> signals{};
  };

  Loopback() {
    data_window = windows.add({ranks[0].data.data(), ranks[1].data.data()}, kBytes);
    signal_window = windows.add({bytes_of(ranks[0].signals), bytes_of(ranks[1].signals)}, sizeof(Rank::signals));
    for (size_t i = 0; i < kBytes; ++i) ranks[0].data[i] = std::byte(i + 1);
  }

  static std::byte* bytes_of(std::array<uint64_t, 4>& words) { return reinterpret_cast<std::byte*>(words.data()); }

  // From rank 0 to rank 1.
  Command good(uint64_t from, uint64_t to, uint64_t bytes, uint32_t signal = 0) const {
    return {from, to, bytes, data_window, data_window, signal_window, signal, 1, 1, 0, 0};
  }

  // Neither memory nor signals of the peer changed.
  bool peer_is_untouched() const {
    const Rank clean;
    return ranks[1].data == clean.data && ranks[1].signals == clean.signals;
  }

  std::array<Rank, 2> ranks;
  WindowRegistry windows;
  uint32_t data_window = 0;
  uint32_t signal_window = 0;
  LoopbackFabric fabric{windows, 0};
};

TEST_F(Loopback, APutCopiesItsBytesAndNothingAround) {
  ASSERT_EQ(fabric.put(good(8, 16, 24), 0), PutResult::kSent);
  for (size_t i = 0; i < kBytes; ++i) {
    const bool inside = i >= 16 && i < 40;
    EXPECT_EQ(ranks[1].data[i], inside ? ranks[0].data[i - 8] : std::byte{0}) << i;
  }
}

TEST_F(Loopback, APutAddsItsAmountToItsSignalOnly) {
  Command command = good(0, 0, 8, 2);
  command.amount = 5;
  fabric.put(command, 0);
  fabric.put(command, 1);
  EXPECT_EQ(ranks[1].signals, (std::array<uint64_t, 4>{0, 0, 10, 0}));
}

TEST_F(Loopback, APutOfNoBytesOnlySignals) {
  ASSERT_EQ(fabric.put(good(kBytes, kBytes, 0), 0), PutResult::kSent);
  EXPECT_EQ(ranks[1].signals[0], 1u);
  EXPECT_EQ(ranks[1].data, Rank{}.data);
}

TEST_F(Loopback, EveryTicketComesBackOnce) {
  for (uint64_t ticket = 10; ticket < 15; ++ticket) fabric.put(good(0, 0, 8), ticket);
  std::vector<uint64_t> completed;
  EXPECT_EQ(fabric.poll(completed), PutResult::kSent);
  EXPECT_EQ(fabric.poll(completed), PutResult::kSent);
  std::sort(completed.begin(), completed.end());
  EXPECT_EQ(completed, (std::vector<uint64_t>{10, 11, 12, 13, 14}));
}

TEST_F(Loopback, ACommandThatPointsOutsideItsWindowFailsTheFabricAndTouchesNothing) {
  std::vector<Command> bad = {good(1, 0, kBytes), good(0, 1, kBytes),    good(kHuge, 0, 8), good(0, kHuge, 8),
                              good(0, 0, kHuge),  good(8, 8, kHuge - 4), good(0, 0, 8, 4),  good(0, 0, 8, 0xffffffffu)};
  bad.push_back(good(0, 0, 8));
  bad.back().to_rank = 2;
  bad.push_back(good(0, 0, 8));
  bad.back().from_window = 99;
  bad.push_back(good(0, 0, 8));
  bad.back().to_window = 99;
  bad.push_back(good(0, 0, 8));
  bad.back().signal_window = 99;
  for (size_t i = 0; i < bad.size(); ++i) {
    LoopbackFabric fresh(windows, 0);
    EXPECT_EQ(fresh.put(bad[i], 0), PutResult::kFailed) << "case " << i;
    EXPECT_NE(fresh.failure().find("leaves its window"), std::string::npos) << fresh.failure();
    EXPECT_TRUE(peer_is_untouched()) << "case " << i;
  }
}

TEST_F(Loopback, AfterAFailureEveryCallSaysSo) {
  ASSERT_EQ(fabric.put(good(0, 0, kHuge), 0), PutResult::kFailed);
  std::vector<uint64_t> completed;
  EXPECT_EQ(fabric.put(good(0, 0, 8), 1), PutResult::kFailed);
  EXPECT_EQ(fabric.poll(completed), PutResult::kFailed);
  EXPECT_FALSE(fabric.failure().empty());
  EXPECT_TRUE(peer_is_untouched());
}

TEST_F(Loopback, AnUnalignedPutKeepsItsBytes) {
  ASSERT_EQ(fabric.put(good(3, 5, 7), 0), PutResult::kSent);
  EXPECT_TRUE(std::equal(ranks[0].data.begin() + 3, ranks[0].data.begin() + 10, ranks[1].data.begin() + 5));
}

}  // namespace
}  // namespace mk::test

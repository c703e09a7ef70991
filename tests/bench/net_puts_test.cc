// SPDX-License-Identifier: MIT
// tests/bench/net_puts_test.cc — netbench measures puts whose bytes are right, and counts those that are wrong.
#include "bench/net_puts.h"

#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/command_rate.h"
#include "bench/net_data.h"
#include "bench/plain_streams.h"

namespace mk::test {
namespace {

using namespace mk::bench;

TEST(NetData, EveryWrongByteIsCounted) {
  for (const uint64_t bytes : {1, 7, 8, 9, 4099}) {
    std::vector<std::byte> data(bytes);
    fill(data.data(), bytes, 5);
    EXPECT_EQ(num_wrong(data.data(), bytes, 5), 0u);
    data.back() ^= std::byte{1};
    EXPECT_EQ(num_wrong(data.data(), bytes, 5), 1u);
    fill_wrong(data.data(), bytes, 5);
    EXPECT_EQ(num_wrong(data.data(), bytes, 5), bytes);
  }
}

TEST(NetData, OfAnotherSeedIsWrong) {
  constexpr uint64_t kBytes = 4096;
  std::vector<std::byte> data(kBytes);
  fill(data.data(), kBytes, 16);
  EXPECT_GT(num_wrong(data.data(), kBytes, 17), kBytes / 2);
}

TEST(NetPuts, AWindowHoldsEnoughPutsAndIsBounded) {
  EXPECT_EQ(window_puts(1), 64u);
  EXPECT_EQ(window_puts(1 << 20), 16u);
  EXPECT_EQ(window_puts(16 << 20), 8u);
  EXPECT_EQ(window_puts(256 << 20), 2u);
}

// body(rank) in two threads over a fabric, each rank with its own registry as if it were a process; what rank 0 throws
// is thrown.
template <class Body>
void with_two_ranks(const std::string& fabric, uint64_t half_bytes, Body&& body) {
  const NetMemory memory(half_bytes);
  auto rendezvous = std::make_unique<Rendezvous>();
  const UniqueId id = rendezvous->id();
  WindowRegistry both;
  const NetMemory::Windows all = memory.add_all(both);
  const auto run = [&](std::unique_ptr<Bootstrap> bootstrap) {
    WindowRegistry own;
    const NetMemory::Windows windows = memory.add_own(own, bootstrap->rank());
    const bool is_loopback = fabric == "loopback";
    NetRank rank(fabric, std::move(bootstrap), memory, is_loopback ? both : own, is_loopback ? all : windows, {});
    body(rank);
    rank.part();
  };
  std::exception_ptr trouble;
  std::thread other([&] {
    try {
      run(std::make_unique<Bootstrap>(id, 1, kNetRanks, kNetDeadline));
    } catch (...) {
      trouble = std::current_exception();
    }
  });
  EXPECT_NO_THROW(run(std::make_unique<Bootstrap>(std::move(rendezvous), kNetRanks, kNetDeadline)));
  other.join();
  EXPECT_EQ(trouble, nullptr);
}

TEST(NetPuts, AreMeasuredOnEveryFabricThatIsEverywhere) {
  constexpr double kSeconds = 0.01;
  for (const char* fabric : {"loopback", "shm", "tcp"}) {
    with_two_ranks(fabric, window_bytes(40'000), [&](NetRank& rank) {
      for (const uint64_t bytes : {8, 40'000}) {
        const PutFigures figures = measure_puts(rank, bytes, kSeconds, {});
        EXPECT_EQ(figures.wrong_bytes, 0u) << fabric;
        EXPECT_EQ(figures.checked_bytes, 2 * window_bytes(bytes));
        if (rank.rank() != 0) continue;
        EXPECT_GE(figures.round_trips, 8u);
        EXPECT_GT(figures.latency.median_us, 0);
        EXPECT_GE(figures.latency.p99_us, figures.latency.median_us);
        EXPECT_GT(figures.bytes_per_second, 0);
        EXPECT_EQ(figures.baseline_bytes_per_second, 0);
      }
    });
  }
}

// Rank 0's window is not what rank 1 expects: rank 0 fills it for one size, rank 1 looks for another.
TEST(NetPuts, OfWrongBytesSayHowManyToBothRanks) {
  with_two_ranks("loopback", window_bytes(1024), [](NetRank& rank) {
    const PutFigures figures = measure_puts(rank, rank.rank() == 0 ? 1024 : 512, 0.001, {});
    EXPECT_GT(figures.wrong_bytes, window_bytes(512) / 2);
  });
}

TEST(PlainStreams, CarryBytesBesideAFabric) {
  with_two_ranks("tcp", 64, [](NetRank& rank) {
    const double rate = plain_streams(rank, 2, 0.01);
    EXPECT_EQ(rate > 0, rank.rank() == 0);
  });
}

TEST(CommandRate, CountsWhatProducersPushed) {
  for (const int producers : {1, 3}) {
    const CommandFigures figures = measure_commands(producers, 0.02);
    EXPECT_EQ(figures.producers, producers);
    EXPECT_GE(figures.commands, static_cast<uint64_t>(figures.runs * producers));
    EXPECT_GT(figures.per_second, 0);
    EXPECT_GT(figures.per_proxy_second, 0);
  }
}

}  // namespace
}  // namespace mk::test

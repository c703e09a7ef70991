// SPDX-License-Identifier: MIT
// bench/net_puts.cc — see net_puts.h.
#include "bench/net_puts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "bench/net_data.h"

namespace mk::bench {
namespace {

constexpr uint64_t kMostPuts = 64;
constexpr uint64_t kWindowBytes = 16 << 20;  // more would not stay in the processor's cache
constexpr uint64_t kLargeBytes = 16 << 20;
constexpr int kRounds = 5;  // of the bandwidth; a median needs some

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Fresh: no two sizes, and not both ranks, have the same data; what was there before is wrong in every byte.
uint64_t count_wrong(NetRank& rank, uint64_t bytes) {
  const auto seed = [&](int of) { return 2 * bytes + static_cast<uint64_t>(of); };
  const uint64_t total = window_bytes(bytes);
  const NetMemory& memory = rank.memory();
  rank.poll_until([&] { return rank.num_under_way() == 0; });  // or the source is still read
  fill(memory.source(rank.rank()), total, seed(rank.rank()));
  fill_wrong(memory.target(rank.rank()), total, seed(rank.peer()));
  rank.meet("");
  for (uint64_t i = 0; i < window_puts(bytes); ++i) rank.put(i * bytes, bytes, NetSignal::kChecked);
  rank.await(NetSignal::kChecked, window_puts(bytes));
  const uint64_t wrong = num_wrong(memory.target(rank.rank()), total, seed(rank.peer()));
  return wrong + std::stoull(rank.meet(std::to_string(wrong)));
}

// Answers pings until there is an end of them.
void answer_pings(NetRank& rank, uint64_t bytes) {
  for (;;) {
    rank.poll_until([&] { return rank.unawaited(NetSignal::kPing) > 0 || rank.unawaited(NetSignal::kEnd) > 0; });
    if (rank.unawaited(NetSignal::kPing) == 0) break;  // the end is paid when the last answer has been seen
    rank.await(NetSignal::kPing, 1);
    rank.put(0, bytes, NetSignal::kPing);
  }
  rank.await(NetSignal::kEnd, 1);
}

// Half round trips in microseconds, for so long but at least so many; none at rank 1.
std::vector<double> ping_pong(NetRank& rank, uint64_t bytes, double seconds, size_t least) {
  std::vector<double> times;
  if (rank.rank() == 1) {
    answer_pings(rank, bytes);
    return times;
  }
  const Clock::time_point begin = Clock::now();
  do {
    const Clock::time_point start = Clock::now();
    rank.put(0, bytes, NetSignal::kPing);
    rank.await(NetSignal::kPing, 1);
    times.push_back(seconds_since(start) * 1e6 / 2);
  } while (times.size() < least || seconds_since(begin) < seconds);
  rank.put(0, 0, NetSignal::kEnd);
  return times;
}

// Puts whole windows for so long.  Bytes a second until all have landed; 0 at rank 1.
double stream(NetRank& rank, uint64_t bytes, double seconds) {
  if (rank.rank() == 1) {
    rank.poll_until([&] { return rank.unawaited(NetSignal::kEnd) > 0; });
    const uint64_t num = rank.unawaited(NetSignal::kEnd);
    rank.await(NetSignal::kData, num);
    rank.await(NetSignal::kEnd, num);
    rank.put(0, 0, NetSignal::kAnswer);
    return 0;
  }
  const uint64_t most = window_puts(bytes);
  uint32_t num = 0;
  const Clock::time_point start = Clock::now();
  do {
    for (uint64_t slot = 0; slot < most; ++slot, ++num) {
      rank.poll_until([&] { return rank.num_under_way() < most; });
      rank.put(slot * bytes, bytes, NetSignal::kData);
    }
  } while (seconds_since(start) < seconds);
  rank.put(0, 0, NetSignal::kEnd, num);
  rank.await(NetSignal::kAnswer, 1);
  return static_cast<double>(num * bytes) / seconds_since(start);
}

}  // namespace

// Eight keep the connections of tcp and the queue pairs of verbs busy.
uint64_t window_puts(uint64_t bytes) {
  return std::clamp<uint64_t>(kWindowBytes / bytes, bytes <= kLargeBytes ? 8 : 2, kMostPuts);
}

PutFigures measure_puts(NetRank& rank, uint64_t bytes, double seconds, const NetBaseline& baseline) {
  PutFigures figures;
  figures.bytes = bytes;
  figures.window_puts = window_puts(bytes);
  figures.checked_bytes = kNetRanks * window_bytes(bytes);
  figures.wrong_bytes = count_wrong(rank, bytes);

  constexpr size_t kLeastTrips = 8;
  ping_pong(rank, bytes, 0, kLeastTrips);
  const std::vector<double> trips = ping_pong(rank, bytes, seconds / 2, kLeastTrips);
  figures.round_trips = trips.size();
  if (rank.rank() == 0) figures.latency = Timing::of(trips);

  std::vector<double> rates, baseline_rates;
  for (int round = 0; round < kRounds; ++round) {
    rank.meet("");
    rates.push_back(stream(rank, bytes, seconds / 2 / kRounds));
    if (baseline) baseline_rates.push_back(baseline(rank, seconds / 2 / kRounds));
  }
  figures.bytes_per_second = median(rates);
  if (baseline) figures.baseline_bytes_per_second = median(baseline_rates);
  return figures;
}

}  // namespace mk::bench

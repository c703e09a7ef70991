// SPDX-License-Identifier: MIT
// bench/net_puts.h — how long a put takes and how many bytes a second puts carry, on one fabric between two ranks.
//
//   latency     rank 0 puts `bytes` and a signal, rank 1 sees the signal and puts as much back: half the round trip
//   bandwidth   rank 0 keeps a window of puts under way until rank 1 has seen the last signal and says so
//
// Before that, both ranks fill a whole window with fresh data, put it, and compare every byte that landed.
#pragma once

#include <cstdint>
#include <functional>

#include "bench/net_rank.h"
#include "bench/statistics.h"

namespace mk::bench {

struct PutFigures {
  uint64_t bytes = 0;
  uint64_t window_puts = 0;    // most that are under way at once
  uint64_t checked_bytes = 0;  // by both ranks
  uint64_t wrong_bytes = 0;
  uint64_t round_trips = 0;
  Timing latency;
  double bytes_per_second = 0;           // median of rounds
  double baseline_bytes_per_second = 0;  // the same, between the rounds; 0 if there is no baseline
};

// Puts of a size that are under way at once, and the bytes they take.
uint64_t window_puts(uint64_t bytes);
inline uint64_t window_bytes(uint64_t bytes) { return window_puts(bytes) * bytes; }

// Bytes a second in about so many seconds.
using NetBaseline = std::function<double(NetRank&, double seconds)>;

// Both ranks.  What rank 1 returns has no times.  Takes about `seconds`, and with a baseline half as long again.
PutFigures measure_puts(NetRank& rank, uint64_t bytes, double seconds, const NetBaseline& baseline);

}  // namespace mk::bench

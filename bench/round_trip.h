// SPDX-License-Identifier: MIT
// bench/round_trip.h — how long a GPU waits for the host to answer: by way of ring, proxy, fabric and signal, and by
// two words alone.
//
// One warp is a worker: it hands a put to its machine, and waits for the signal that the put pays, in pinned memory.
// Beside that, one thread writes a word and waits for another, which a host thread writes as soon as it sees the first.
// Both times are read off the GPU's clock; batches of both take turns.
#pragma once

#include "bench/statistics.h"

namespace mk::bench {

struct RoundTripFigures {
  int round_trips = 0;  // of each kind
  Timing words;
  Timing through_proxy;

  double ratio() const { return through_proxy.median_us / words.median_us; }
};

// Takes about so many seconds.  Throws Error: kUnavailable without a GPU, kTimeout if an answer did not come.
RoundTripFigures measure_round_trips(double seconds);

}  // namespace mk::bench

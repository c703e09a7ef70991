// SPDX-License-Identifier: MIT
// bench/plain_streams.h — what sockets alone carry: the baseline of the tcp fabric.
//
// As iperf3 does it: blocking send and recv of 128 KiB, one thread a stream on both sides, no frames and no signals.
#pragma once

#include "bench/net_rank.h"

namespace mk::bench {

// Both ranks.  Rank 0 sends for so many seconds and waits until all has been taken; returns its bytes a second, and 0
// at rank 1.  Throws Error.
double plain_streams(NetRank& rank, int num_streams, double seconds);

}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// target/sim/costs.h — what things cost in virtual time.
//
// A transfer occupies the link out of its source and the link into its destination for bytes ÷ bandwidth, first come
// first served, and arrives one latency later.
//
// A worker that has an SM to itself copies `copy_gb_s`.  Communication workers that share an SM occupy it one after
// the other, for the bytes they read and write ÷ `sm_gb_s`; and none of them moves more than `worker_gb_s`.  A worker
// inside a compute block moves half of `worker_gb_s`; the time for which it occupies the SM is added to the block's
// next tile.
#pragma once

#include <algorithm>
#include <cstdint>

#include "target/h200.h"
#include "target/sim/random.h"
#include "target/sim/scheduler.h"

namespace mk::sim {

constexpr Time kNanosecond = 1'000;
constexpr Time kMicrosecond = 1'000'000;

constexpr Time picoseconds(double seconds) { return static_cast<Time>(seconds * 1e12); }

// A tile's maths: so many operations at the rate of the best tile, and how often the overheads of a usual tile.
struct TileWork {
  double flops = 0;
  double overheads = 1;
  double fills = 0;
};

struct Costs {
  double sm_tflops = h200::kFlopsPerSmSecond * 1e-12;                             // tile maths of an SM
  Time tile_overhead = picoseconds(h200::kUsualBorder * h200::kSecondsPerBlock);  // of a usual tile: what nothing hides
  Time tile_fill = picoseconds(h200::kUsualLaunch * h200::kSecondsPerBlock);      // once in a launch, likewise
  double copy_gb_s = h200::kCopiedPerSmSecond * 1e-9;                             // of a worker with an SM to itself
  double sm_gb_s = h200::kMovedPerSmSecond * 1e-9;              // read and written by those that share an SM
  double worker_gb_s = h200::kMostMovedPerWorkerSecond * 1e-9;  // read and written by one of them, at most
  double nvlink_gb_s = h200::kNvlinkPerSecond * 1e-9;           // per rank and direction
  Time nvlink_latency = 700'000;
  double nic_gb_s = h200::kNetworkPerSecond * 1e-9;  // per rank and direction
  Time nic_latency = 3'000'000;
  Time proxy_per_command = 400'000;
  Time proxy_wake = 900'000;      // from a worker's store to the proxy's load
  Time signal_latency = 700'000;  // from an add to the waiter that sees it
  Time launch = 3'000'000;        // from the end of a launch to the start of the next

  static Time transfer(uint64_t bytes, double gb_s) { return whole(static_cast<double>(bytes) * 1000 / gb_s); }
  // 1 TFLOP/s is 1 FLOP a picosecond.
  Time tile(const TileWork& work) const {
    return whole(work.overheads * static_cast<double>(tile_overhead) + work.fills * static_cast<double>(tile_fill) +
                 work.flops / sm_tflops);
  }

  // Whole picoseconds; what is not below the end of time, even infinite, is that.
  static Time whole(double picoseconds) {
    return picoseconds < static_cast<double>(kEndOfTime) ? static_cast<Time>(picoseconds) : kEndOfTime;
  }
};

// A direction of a link: transfers follow each other.
struct Link {
  Time free_at = 0;
};

// When a transfer over both links that could start now has left the slower of them.  Each link serves
// its own queue: packets of several transfers interleave, so a busy far end holds no near end up.
inline Time occupy(Link& out, Link& in, Time now, Time duration) {
  out.free_at = later_by(std::max(now, out.free_at), duration);
  in.free_at = later_by(std::max(now, in.free_at), duration);
  return std::max(out.free_at, in.free_at);
}

// The same over one link, or through an SM.
inline Time occupy(Link& link, Time now, Time duration) {
  link.free_at = later_by(std::max(now, link.free_at), duration);
  return link.free_at;
}

// How a run departs from the costs: not at all when predicting, widely when fuzzing.
class Disturbance {
 public:
  enum class Kind { kNone, kFuzz };

  Disturbance(Kind kind, Random& random) : kind_(kind), random_(random) {}

  bool on() const { return kind_ == Kind::kFuzz; }

  // From an eighth to twice the cost; now and then far more, so that others overtake.
  Time vary(Time cost) {
    if (!on()) return cost;
    const Time varied = (cost + 8) * (1 + random_.below(16)) / 8;
    return random_.one_in(24) ? varied * (8 + random_.below(64)) : varied;
  }

  bool happens_one_in(uint64_t n) { return on() && random_.one_in(n); }

 private:
  Kind kind_;
  Random& random_;
};

}  // namespace mk::sim

// SPDX-License-Identifier: MIT
// target/sim/costs.h — what things cost in virtual time.
//
// A transfer occupies the link out of its source and the link into its destination for bytes ÷
// bandwidth, first come first served, and arrives one latency later.  One worker alone moves no faster
// than `copy_gb_s`.
#pragma once

#include <algorithm>
#include <cstdint>

#include "target/sim/random.h"
#include "target/sim/scheduler.h"

namespace mk::sim {

constexpr Time kNanosecond = 1'000;
constexpr Time kMicrosecond = 1'000'000;

struct Costs {
  double sm_tflops = 5.7;        // one worker's tile maths
  Time tile_overhead = 500'000;  // per tile: prologue and epilogue that nothing hides
  double copy_gb_s = 50;         // one worker's copies
  double nvlink_gb_s = 450;      // per rank and direction
  Time nvlink_latency = 700'000;
  double nic_gb_s = 50;  // per rank and direction
  Time nic_latency = 3'000'000;
  Time proxy_per_command = 400'000;
  Time proxy_wake = 900'000;      // from a worker's store to the proxy's load
  Time signal_latency = 700'000;  // from an add to the waiter that sees it
  Time launch = 3'000'000;        // from the end of a launch to the start of the next

  static Time transfer(uint64_t bytes, double gb_s) { return whole(static_cast<double>(bytes) * 1000 / gb_s); }
  Time tile(double flops) const {
    return later_by(tile_overhead, whole(flops / sm_tflops));
  }  // 1 TFLOP/s is 1 FLOP a picosecond

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

// SPDX-License-Identifier: MIT
// target/sim/gate.h — a counter between the jobs of a block: the simulator's barrier in shared memory.
//
// Opening it releases what the opener did; passing it acquires what everybody did who has opened it.
#pragma once

#include <cstdint>

#include "target/sim/sim_world.h"

namespace mk::sim {

class Gate {
 public:
  explicit Gate(SimWorld& world) : clock_(world.memory().make_clock()) {}

  void open(SimWorld& world, Worker& worker) {
    if (const ClockSnapshot clock = world.memory().release(worker)) clock_.join(*clock);
    ++value_;
    world.core().wake(waiters_, kLatency);
  }

  // Until it was opened so often.  `what` it stands for is for reports.
  bool pass(SimWorld& world, Worker& worker, int64_t times, const char* what, int64_t subject) {
    const bool passed = world.core().wait_until(
        worker, [&] { return value_ >= times; }, [&](Worker& waiter) { world.core().enter(waiters_, waiter); },
        [&] { return std::string(what); }, subject);
    if (passed) world.memory().acquire(worker, clock_);
    return passed;
  }

 private:
  static constexpr Time kLatency = 20 * kNanosecond;

  int64_t value_ = 0;
  Waiters waiters_;
  Clock clock_;
};

}  // namespace mk::sim

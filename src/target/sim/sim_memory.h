// SPDX-License-Identifier: MIT
// target/sim/sim_memory.h — windows, their shadows, and the clocks of those who touch them.
//
// Without data every function here returns at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/window.h"
#include "target/sim/sim_core.h"
#include "target/sim/visibility.h"

namespace mk::sim {

// One who reads and writes: a worker or a put in flight.
struct Actor {
  int thread = -1;
  const Clock* clock = nullptr;
  uint64_t epoch = 0;
  int64_t subject = -1;
};

// A put has a clock of its own: it is ordered after its sender and before whoever acquires its signal.
struct PutClock {
  int thread = -1;
  Clock clock;
};

class SimMemory {
 public:
  static constexpr std::byte kPoison{0xff};  // what a window holds before anybody writes it

  explicit SimMemory(SimCore& core);

  // Null without data.
  std::byte* at(const Place& place, uint64_t epoch);

  void read(const Actor& actor, const Place& from, uint64_t bytes);
  void write(const Actor& actor, const Place& to, uint64_t bytes);  // the bytes themselves are the caller's
  void copy(const Actor& actor, const Place& to, const Place& from, uint64_t bytes);

  // The same in two halves, with time between them.
  std::vector<std::byte> take(const Actor& actor, const Place& from, uint64_t bytes);
  void bring(const Actor& actor, const Place& to, const std::vector<std::byte>& bytes);

  Actor actor(const Worker& worker, int64_t subject) const;

  ClockSnapshot release(const Worker& worker);
  void acquire(const Worker& worker, const ClockSnapshot& clock);
  void acquire(const Worker& worker, const Clock& clock);
  Clock make_clock() const { return Clock(core_.spec.with_data ? num_threads_ : 0); }

  PutClock start_put(int rank, uint64_t ticket, const Clock& sender);

 private:
  bool inside(const Actor& actor, const Place& place, uint64_t bytes);
  void judge(const std::optional<Conflict>& conflict, const Actor& actor, const char* verb, const Place& place);
  std::string describe(int thread, uint64_t epoch, int64_t subject) const;

  SimCore& core_;
  int num_threads_ = 0;
  int lanes_ = 0;  // clocks for the puts of a rank: those of one launch are unordered, so each has its own
  std::vector<std::vector<std::vector<std::byte>>> windows_;  // [rank][slot]
  std::vector<std::vector<Shadow>> shadows_;                  // [rank][slot]
  std::vector<Clock> clocks_;                                 // by worker
  std::vector<uint32_t> put_ticks_;                           // by lane
};

}  // namespace mk::sim

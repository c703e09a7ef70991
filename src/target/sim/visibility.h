// SPDX-License-Identifier: MIT
// target/sim/visibility.h — who may read which bytes: happens-before by signals, and nothing else.
//
// Every worker and every put in flight is a thread with a vector clock.  An add, a put or the end of a
// launch releases a clock, a wait acquires it.  Shadow memory knows, for every range of every window,
// its last write and the reads since.  A read whose range was last written by somebody not ordered
// before the reader, and a write over a range that an unordered thread wrote or may still read, are
// errors, even when the bytes happen to be right.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mk::sim {

class Clock {
 public:
  Clock() = default;
  explicit Clock(int threads) : ticks_(threads) {}

  uint32_t operator[](int thread) const { return ticks_[thread]; }
  void set(int thread, uint32_t tick) { ticks_[thread] = tick; }
  void tick(int thread) { ++ticks_[thread]; }
  void join(const Clock& other) {
    uint32_t* const mine = ticks_.data();
    const uint32_t* const others = other.ticks_.data();
    const size_t count = ticks_.size();
    for (size_t i = 0; i < count; ++i) mine[i] = std::max(mine[i], others[i]);  // stores always: it vectorizes
  }

 private:
  std::vector<uint32_t> ticks_;
};

using ClockSnapshot = std::shared_ptr<const Clock>;

// An access as it is remembered: which thread at which tick, and what it was doing, for reports.
struct Access {
  int thread = -1;
  uint32_t tick = 0;
  uint32_t epoch = 0;
  int64_t subject = -1;
};

// Two accesses that no signal orders; `earlier` is nobody for a read of bytes never written.
struct Conflict {
  Access earlier;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool earlier_wrote = false;
};

// The shadow of one window of one rank.
class Shadow {
 public:
  std::optional<Conflict> read(uint64_t begin, uint64_t end, const Access& access, const Clock& clock);
  std::optional<Conflict> write(uint64_t begin, uint64_t end, const Access& access, const Clock& clock);

 private:
  struct Cell {
    uint64_t end = 0;
    Access write;
    std::vector<Access> reads;  // since the write, the last of each thread
  };
  using Cells = std::map<uint64_t, Cell>;

  // Cuts cells so that [begin, end) is a run of whole ones, and returns the first.
  Cells::iterator cover(uint64_t begin, uint64_t end);
  void cut(uint64_t at);

  Cells cells_;
};

}  // namespace mk::sim

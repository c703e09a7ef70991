// SPDX-License-Identifier: MIT
// target/sim/event_queue.h — events in order of (time, tie), for hundreds of thousands at once.
//
// A ladder queue.  Events far ahead lie unsorted; when their turn comes they are spread over a rung of
// buckets by time, a crowded bucket over a rung of its own, and only buckets that are due are sorted, into
// a run.  A push or pop costs a few nanoseconds whatever the number of events, and the run shows what
// comes next, so that its memory can be fetched early.
//
// Pushed events must not be earlier than the last one popped.  Ties must differ: the order is then total.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mk::sim {

using Time = uint64_t;  // picoseconds

constexpr Time kEndOfTime = Time{1} << 63;  // events are before it

// Stays at the end of time rather than wrap.
constexpr Time later_by(Time time, Time delay) { return delay < kEndOfTime - time ? time + delay : kEndOfTime; }

struct TimedEvent {
  Time time;
  uint64_t tie;  // random: who comes first among equals
  uint32_t target;

  bool before(const TimedEvent& other) const { return time != other.time ? time < other.time : tie < other.tie; }
};

class EventQueue {
 public:
  void push(const TimedEvent& event) {
    if (event.time <= run_last_) return push_late(event);
    push_ahead(event);
  }

  // Takes the first event; false if there is none.
  bool pop(TimedEvent& event) {
    if (next_ == run_.size() && late_.empty() && !refill()) return false;
    if (late_.empty() || (next_ < run_.size() && run_[next_].before(late_.front()))) {
      event = run_[next_++];
    } else {
      event = pop_late();
    }
    return true;
  }

  // What is expected next, at most `most` events.  A hint: a push may come in between.
  std::span<const TimedEvent> ahead(size_t most) const {
    return std::span(run_).subspan(next_).first(std::min(most, run_.size() - next_));
  }

 private:
  using Bucket = std::vector<TimedEvent>;
  struct Rung {
    Time begin = 0;
    Time last = 0;       // of the times it covers
    unsigned shift = 0;  // a bucket covers 2^shift picoseconds
    size_t current = 0;  // the first bucket that is not yet in a run
    std::vector<Bucket> buckets;
  };

  void push_late(const TimedEvent& event);
  TimedEvent pop_late();
  void push_ahead(const TimedEvent& event);

  bool refill();
  void take_top();
  // Appends due buckets of the innermost rung to the run, or gives the next, if crowded, a rung of its own.
  void take_buckets();
  void add_rung(Time begin, Time last, Bucket& events);
  void append_sorted(Bucket& bucket);

  std::vector<TimedEvent> run_;  // sorted; from next_ on not yet popped
  size_t next_ = 0;
  Time run_last_ = 0;             // pushed events up to here are late
  std::vector<TimedEvent> late_;  // a heap
  std::vector<Rung> rungs_;       // outermost first; those from depth_ on are spare
  size_t depth_ = 0;
  Bucket top_;  // behind all rungs
};

}  // namespace mk::sim

// SPDX-License-Identifier: MIT
// bench/link_clock.h — one paced link, and the queues of transfers that share it.
//
// A queue's transfers go in the order they were announced; one is taken when its bytes are ready and those
// before it in its queue are taken.  Whatever queue it stands in, it then reserves the link's next free time,
// and is over when that has passed.  Pure: the caller brings the clock.
#pragma once

#include <cstdint>
#include <deque>

#include "bench/pace.h"

namespace mk::bench {

class LinkClock {
 public:
  explicit LinkClock(double ns_per_byte) : ns_per_byte_(ns_per_byte) {}

  // The time these bytes take, if they come now.
  Reservation carry(uint64_t now, uint64_t bytes) {
    const Reservation turn = reserve(now, free_at_, bytes, ns_per_byte_);
    free_at_ = turn.end;
    return turn;
  }

 private:
  double ns_per_byte_;
  uint64_t free_at_ = 0;
};

class LinkQueue {
 public:
  // The next transfer in line is ready.
  void take(LinkClock& link, uint64_t now, uint64_t bytes) {
    ends_.push_back(link.carry(now, bytes).end);
    ++taken_;
  }

  // How many are over, from the first one ever on.
  uint64_t over(uint64_t now) {
    while (!ends_.empty() && ends_.front() <= now) ends_.pop_front();
    return taken_ - ends_.size();
  }

  uint64_t taken() const { return taken_; }
  bool idle() const { return ends_.empty(); }

 private:
  uint64_t taken_ = 0;
  std::deque<uint64_t> ends_;  // they only grow
};

}  // namespace mk::bench

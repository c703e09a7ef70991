// SPDX-License-Identifier: MIT
// target/sim/scheduler.h — fibres in one thread under virtual time.
//
// Everything that happens is an event at a virtual time: a fibre goes on, or a function is called.
// Events at the same time run in an order drawn from the seed, so the same seed gives the same run.
// Nothing here blocks: when no event is left, run() returns, and fibres that are still parked are the
// ones that nobody will wake.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <queue>
#include <vector>

#include "target/sim/random.h"

namespace mk::sim {

using Time = uint64_t;  // picoseconds

class Scheduler {
 public:
  // A guarded stack turns an overflow into a fault; a plain one takes no mapping of its own, of which a
  // process has some ten thousand.
  enum class Stacks { kGuarded, kPlain };
  explicit Scheduler(Random& random, Stacks stacks = Stacks::kGuarded) : random_(random), stacks_(stacks) {}
  Scheduler(const Scheduler&) = delete;

  Time now() const { return now_; }

  // Starts a fibre at the present time; the number is what the other calls take.
  int spawn(std::function<void()> body);

  // Calls `function` later, outside any fibre.
  void call_after(Time delay, std::function<void()> function);

  // For the running fibre: go on later, or not before unpark.
  void sleep(Time delay);
  void park();
  void unpark(int fibre, Time delay);

  // Until nothing is left to happen.  What a fibre throws comes out here; the run is over then.
  void run();

 private:
  struct Event {
    Time time;
    uint64_t tie;    // random: who comes first among equals
    uint64_t order;  // makes ties final
    int fibre;       // or -1: a call
    int call;
    bool operator<(const Event& other) const {
      if (time != other.time) return time > other.time;
      if (tie != other.tie) return tie > other.tie;
      return order > other.order;
    }
  };

  void push(Time delay, int fibre, int call);
  void resume(int fibre);
  void switch_out();

  Random& random_;
  const Stacks stacks_;
  Time now_ = 0;
  uint64_t order_ = 0;
  int running_ = -1;
  std::priority_queue<Event> events_;
  std::vector<boost::context::fiber> fibres_;
  std::vector<int> free_fibres_;
  std::vector<std::function<void()>> calls_;
  std::vector<int> free_calls_;
  boost::context::fiber main_;
  std::exception_ptr trouble_;  // of the fibre that ran last
};

}  // namespace mk::sim

// SPDX-License-Identifier: MIT
// target/sim/scheduler.h — fibres in one thread under virtual time.
//
// Everything that happens is an event at a virtual time: a fibre goes on, or a function is called.  Events at the same
// time run in an order drawn from the seed, so the same seed gives the same run.  Nothing here blocks: when no event
// is left, run() returns, and nobody will wake the fibres that are still parked.  An exception that leaves a fibre or
// a call leaves run().
//
// Large worlds are bound by memory latency: a fibre goes on after all others had their turn, so its stack is in no
// cache. run() therefore looks ahead in the queue and prefetches what the next events will touch.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include "target/sim/event_queue.h"
#include "target/sim/fibre_stacks.h"
#include "target/sim/inline_call.h"
#include "target/sim/random.h"

namespace mk::sim {

class Scheduler {
 public:
  // A guarded stack turns an overflow into a fault; a plain one takes no mapping of its own, of which a
  // process has some ten thousand.
  enum class Stacks { kGuarded, kPlain };
  explicit Scheduler(Random& random, Stacks stacks = Stacks::kGuarded) : random_(random), stacks_(stacks) {}
  Scheduler(const Scheduler&) = delete;

  Time now() const { return now_; }

  // Starts a fibre at the present time; the number is what the other calls take.  `touches` is what it
  // looks at whenever it goes on, or null: a hint.
  int spawn(std::function<void()> body, const void* touches = nullptr);

  // Calls `function` later, outside any fibre.  `touches` as for spawn.
  template <class Function>
  void call_after(Time delay, Function function, const void* touches = nullptr) {
    const uint32_t slot = take_call();
    calls_[slot].set(std::move(function), touches);
    push(delay, slot | kCall);
  }

  // For the running fibre: go on later, or not before unpark.
  void sleep(Time delay) {
    push(delay, running_);
    switch_out();
  }
  void park() { switch_out(); }
  void unpark(int fibre, Time delay) { push(delay, static_cast<uint32_t>(fibre)); }

  // Until nothing is left to happen.
  void run();

 private:
  static constexpr uint32_t kCall = uint32_t{1} << 31;  // in an event's target: a call, not a fibre
  static constexpr uint32_t kNobody = kCall - 1;

  struct Fibre {
    boost::context::fiber context;
    const void* frame = nullptr;  // where its stack ends while it is not running
    const void* touches = nullptr;
  };

  void push(Time delay, uint32_t target) {
    const Time time = later_by(now_, delay);
    if (time == kEndOfTime) complain_about_end();
    events_.push({time, random_.next(), target});
  }
  [[noreturn]] static void complain_about_end();
  uint32_t take_call();
  void resume(uint32_t fibre);
  void fetch_ahead();

  // Inline, so that few frames of a suspended fibre have to be fetched.
  void switch_out() {
    fibres_[running_].frame = __builtin_frame_address(0);
    main_ = std::move(main_).resume();
  }

  Random& random_;
  const Stacks stacks_;
  Time now_ = 0;
  uint32_t running_ = kNobody;
  size_t fetched_ = 0;  // events from the next one on
  EventQueue events_;
  PlainStacks plain_stacks_;
  std::vector<Fibre> fibres_;
  std::vector<uint32_t> free_fibres_;
  std::deque<InlineCall> calls_;  // a call may add others while it runs: they stay in place
  std::vector<uint32_t> free_calls_;
  boost::context::fiber main_;
  std::exception_ptr error_;  // that left a fibre
};

}  // namespace mk::sim

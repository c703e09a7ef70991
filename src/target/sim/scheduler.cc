// SPDX-License-Identifier: MIT
// target/sim/scheduler.cc — see scheduler.h.
#include "target/sim/scheduler.h"

#include <cstdint>
#include <span>
#include <stdexcept>

#include "target/sim/fibre_stacks.h"

namespace mk::sim {
namespace {

constexpr size_t kBatch = 24;  // events whose memory is fetched at once: enough misses to overlap
constexpr int kLine = 64;
// What a fibre that goes on reads of its stack, around the frame that switched out.
constexpr int kBelowFrame = 4 * kLine;
constexpr int kAboveFrame = 10 * kLine;
static_assert(kAboveFrame <= PlainStacks::kReadableAbove);

// Fetches a line by reading it: prefetch instructions are dropped where they miss the TLB of a virtual machine.
inline void touch(const void* address) {
  if (address != nullptr) asm volatile("" : : "r"(*static_cast<const volatile char*>(address)));
}

}  // namespace

int Scheduler::spawn(std::function<void()> body, const void* touches) {
  if (free_fibres_.empty()) {
    fibres_.emplace_back();
    free_fibres_.reserve(fibres_.capacity());  // so that a fibre can end without an allocation
    free_fibres_.push_back(static_cast<uint32_t>(fibres_.size() - 1));
  }
  const uint32_t id = free_fibres_.back();
  auto entry = [this, id, body = std::move(body)](boost::context::fiber&& caller) {
    main_ = std::move(caller);
    try {
      body();
    } catch (const boost::context::detail::forced_unwind&) {
      throw;  // the scheduler goes away before the fibre has ended
    } catch (...) {
      error_ = std::current_exception();
    }
    free_fibres_.push_back(id);
    return std::move(main_);
  };
  if (stacks_ == Stacks::kGuarded) {
    fibres_[id].context = boost::context::fiber(std::allocator_arg, GuardedStack{}, std::move(entry));
  } else {
    fibres_[id].context = boost::context::fiber(std::allocator_arg, PlainStack{&plain_stacks_}, std::move(entry));
  }
  free_fibres_.pop_back();
  fibres_[id].touches = touches;
  push(0, id);
  return static_cast<int>(id);
}

void Scheduler::complain_about_end() {
  throw std::overflow_error("virtual time passes 2^63 picoseconds: rates are too low or latencies too long");
}

uint32_t Scheduler::take_call() {
  if (free_calls_.empty()) {
    calls_.emplace_back();
    free_calls_.push_back(static_cast<uint32_t>(calls_.size() - 1));
  }
  const uint32_t slot = free_calls_.back();
  free_calls_.pop_back();
  return slot;
}

void Scheduler::resume(uint32_t fibre) {
  running_ = fibre;
  // Taken out first: the fibre may spawn others, which moves the vector.
  boost::context::fiber next = std::move(fibres_[fibre].context);
  next = std::move(next).resume();
  if (next) fibres_[fibre].context = std::move(next);
  running_ = kNobody;
  if (plain_stacks_.has_overflowed()) throw std::logic_error("a simulated worker has overflowed its stack");
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

// Guarded stacks are of small worlds, which fit into caches, and end at pages that must not be read.
void Scheduler::fetch_ahead() {
  if (stacks_ == Stacks::kGuarded) {
    fetched_ = SIZE_MAX;
    return;
  }
  const std::span<const TimedEvent> next = events_.ahead(kBatch);
  fetched_ = next.size();
  const char* frames[kBatch];
  size_t count = 0;
  for (const TimedEvent& event : next) {
    if ((event.target & kCall) != 0) {
      touch(calls_[event.target & ~kCall].touches());
    } else {
      const Fibre& fibre = fibres_[event.target];
      touch(fibre.touches);
      frames[count++] = static_cast<const char*>(fibre.frame);
    }
  }
  for (int at = -kBelowFrame; at < kAboveFrame; at += kLine) {
    for (size_t i = 0; i < count; ++i) {
      if (frames[i] != nullptr) touch(frames[i] + at);
    }
  }
}

void Scheduler::run() {
  TimedEvent event;
  while (events_.pop(event)) {
    if (fetched_ == 0) {
      fetch_ahead();
    } else {
      --fetched_;
    }
    now_ = event.time;
    if ((event.target & kCall) == 0) {
      resume(event.target);
      continue;
    }
    const uint32_t slot = event.target & ~kCall;
    calls_[slot]();
    free_calls_.push_back(slot);
  }
}

}  // namespace mk::sim

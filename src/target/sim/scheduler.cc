// SPDX-License-Identifier: MIT
// target/sim/scheduler.cc — see scheduler.h.
#include "target/sim/scheduler.h"

#include <boost/context/fixedsize_stack.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <utility>

namespace mk::sim {
namespace {

// A protocol function and its machine need a few kilobytes; formatting a complaint needs more.
constexpr size_t kStackBytes = 32 * 1024;

// Guarded stacks that fibres of this thread have left, for the next ones: mapping them anew costs more
// than a whole fuzzed launch.
class StackPool {
 public:
  ~StackPool() {
    for (boost::context::stack_context& stack : free_) make().deallocate(stack);
  }
  boost::context::stack_context take() {
    if (free_.empty()) return make().allocate();
    const boost::context::stack_context stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void give(const boost::context::stack_context& stack) { free_.push_back(stack); }

 private:
  static boost::context::protected_fixedsize_stack make() {
    return boost::context::protected_fixedsize_stack(kStackBytes);
  }
  std::vector<boost::context::stack_context> free_;
};

thread_local StackPool stack_pool;

// What boost::context asks of an allocator.
struct PooledStack {
  boost::context::stack_context allocate() { return stack_pool.take(); }
  void deallocate(boost::context::stack_context& stack) { stack_pool.give(stack); }
};

template <class T>
int take_slot(std::vector<T>& slots, std::vector<int>& free) {
  if (free.empty()) {
    slots.emplace_back();
    return static_cast<int>(slots.size() - 1);
  }
  const int slot = free.back();
  free.pop_back();
  return slot;
}

}  // namespace

int Scheduler::spawn(std::function<void()> body) {
  const int id = take_slot(fibres_, free_fibres_);
  auto entry = [this, id, body = std::move(body)](boost::context::fiber&& caller) {
    main_ = std::move(caller);
    try {
      body();
      free_fibres_.push_back(id);
    } catch (const boost::context::detail::forced_unwind&) {
      throw;  // the scheduler goes away with this fibre parked
    } catch (...) {
      trouble_ = std::current_exception();  // nothing may leave a fibre
    }
    return std::move(main_);
  };
  if (stacks_ == Stacks::kGuarded) {
    fibres_[id] = boost::context::fiber(std::allocator_arg, PooledStack{}, std::move(entry));
  } else {
    fibres_[id] =
        boost::context::fiber(std::allocator_arg, boost::context::fixedsize_stack(kStackBytes), std::move(entry));
  }
  push(0, id, -1);
  return id;
}

void Scheduler::call_after(Time delay, std::function<void()> function) {
  const int slot = take_slot(calls_, free_calls_);
  calls_[slot] = std::move(function);
  push(delay, -1, slot);
}

void Scheduler::push(Time delay, int fibre, int call) {
  events_.push({now_ + delay, random_.next(), order_++, fibre, call});
}

void Scheduler::sleep(Time delay) {
  push(delay, running_, -1);
  switch_out();
}

void Scheduler::park() { switch_out(); }

void Scheduler::unpark(int fibre, Time delay) { push(delay, fibre, -1); }

void Scheduler::switch_out() { main_ = std::move(main_).resume(); }

void Scheduler::resume(int fibre) {
  running_ = fibre;
  // Taken out first: the fibre may spawn others, which moves the vector.
  boost::context::fiber next = std::move(fibres_[fibre]);
  next = std::move(next).resume();
  if (next) fibres_[fibre] = std::move(next);
  running_ = -1;
  if (trouble_ != nullptr) std::rethrow_exception(std::exchange(trouble_, nullptr));
}

void Scheduler::run() {
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    if (event.fibre >= 0) {
      resume(event.fibre);
      continue;
    }
    const std::function<void()> function = std::move(calls_[event.call]);
    free_calls_.push_back(event.call);
    function();
  }
}

}  // namespace mk::sim

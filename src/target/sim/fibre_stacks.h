// SPDX-License-Identifier: MIT
// target/sim/fibre_stacks.h — where fibres keep their stacks, as boost::context asks of an allocator.
//
// Free stacks are linked through their own topmost word, so giving one back never allocates: a fibre may
// end because memory has run out.
#pragma once

#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <vector>

namespace mk::sim {

// Stacks with a guard page each, shared by the worlds of a thread: mapping them anew costs more than a
// whole fuzzed launch.
struct GuardedStack {
  boost::context::stack_context allocate();
  void deallocate(boost::context::stack_context& stack);
};

// Stacks of one world without guards, many to a mapping of huge pages.  Outlives the fibres on them.
class PlainStacks {
 public:
  // Bytes above the top of any stack that may be read, though they are others'.
  static constexpr int kReadableAbove = 1024;

  PlainStacks() = default;
  PlainStacks(const PlainStacks&) = delete;
  ~PlainStacks();

  boost::context::stack_context take();
  void give(const boost::context::stack_context& stack) noexcept;
  // A fibre that has ended used more than there is: what it wrote over is not known.
  bool has_overflowed() const { return has_overflowed_; }

 private:
  void add_slab();

  void* free_ = nullptr;  // top of the first free stack
  bool has_overflowed_ = false;
  std::vector<void*> slabs_;
};

struct PlainStack {
  PlainStacks* stacks;
  boost::context::stack_context allocate() { return stacks->take(); }
  void deallocate(boost::context::stack_context& stack) { stacks->give(stack); }
};

}  // namespace mk::sim

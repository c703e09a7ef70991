// SPDX-License-Identifier: MIT
// target/sim/fibre_stacks.cc — see fibre_stacks.h.
#include "target/sim/fibre_stacks.h"

#include <sys/mman.h>

#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdint>
#include <new>

namespace mk::sim {
namespace {

using boost::context::stack_context;

// A protocol function and its machine need 1.5 KiB; formatting a complaint, an exception that is thrown, or
// the first call of a function in a shared library need 4 more.
constexpr size_t kGuardedStackBytes = 32 * 1024;
// As dense as can be: a large world touches all stacks in turn, and is as fast as few huge pages hold them.
// Where memory ends, an exception passes through a fibre, which takes most of it.  Not a power of two: tops of stacks
// would share few sets of a cache.
constexpr size_t kPlainStackBytes = 7 * 1024 + 64;
constexpr size_t kHugePage = size_t{1} << 21;
constexpr size_t kSlabBytes = 4 * kHugePage;
constexpr size_t kStacksPerSlab = (kSlabBytes - PlainStacks::kReadableAbove) / kPlainStackBytes;
constexpr uint64_t kUntouched = 0x6d6b5f7374616b00;  // in the lowest word of a plain stack

uint64_t& lowest_word(void* top) {
  return *reinterpret_cast<uint64_t*>(static_cast<std::byte*>(top) - kPlainStackBytes);
}

// The link of a free stack.
void*& next_of(void* top) { return *(static_cast<void**>(top) - 1); }

class GuardedPool {
 public:
  ~GuardedPool() {
    while (free_.sp != nullptr) {
      stack_context stack = take();
      maker().deallocate(stack);
    }
  }
  stack_context take() {
    if (free_.sp == nullptr) return maker().allocate();
    const stack_context stack = free_;
    free_.sp = next_of(stack.sp);
    return stack;
  }
  void give(const stack_context& stack) {
    next_of(stack.sp) = free_.sp;
    free_ = stack;  // all are of one size
  }

 private:
  static boost::context::protected_fixedsize_stack maker() {
    return boost::context::protected_fixedsize_stack(kGuardedStackBytes);
  }
  stack_context free_;  // the first; none while its `sp` is null
};

thread_local GuardedPool guarded_pool;

}  // namespace

stack_context GuardedStack::allocate() { return guarded_pool.take(); }
void GuardedStack::deallocate(stack_context& stack) { guarded_pool.give(stack); }

PlainStacks::~PlainStacks() {
  for (void* slab : slabs_) ::munmap(slab, kSlabBytes);
}

void PlainStacks::add_slab() {
  slabs_.reserve(slabs_.size() + 1);
  void* const slab =
      ::mmap(nullptr, kSlabBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (slab == MAP_FAILED) throw std::bad_alloc();
  slabs_.push_back(slab);
  ::madvise(slab, kSlabBytes, MADV_HUGEPAGE);  // only advice
  for (size_t i = kStacksPerSlab; i > 0; --i) {
    void* const top = static_cast<std::byte*>(slab) + i * kPlainStackBytes;
    lowest_word(top) = kUntouched;
    next_of(top) = free_;
    free_ = top;
  }
}

stack_context PlainStacks::take() {
  if (free_ == nullptr) add_slab();
  stack_context stack;
  stack.size = kPlainStackBytes;
  stack.sp = free_;
  free_ = next_of(free_);
  return stack;
}

void PlainStacks::give(const stack_context& stack) noexcept {
  if (lowest_word(stack.sp) != kUntouched) has_overflowed_ = true;
  next_of(stack.sp) = free_;
  free_ = stack.sp;
}

}  // namespace mk::sim

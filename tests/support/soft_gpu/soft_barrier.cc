// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_barrier.cc — see soft_barrier.h.
#include "tests/support/soft_gpu/soft_barrier.h"

#include <atomic>

#include "tests/support/soft_gpu/soft_block.h"

namespace mk::soft_gpu {
namespace {

// What the word holds.  A word that was not initialised has another mark.
struct State {
  static constexpr uint64_t kMark = 0x2d;

  uint32_t phase = 0;
  uint32_t missing = 0;
  uint32_t count = 0;
  int64_t bytes = 0;  // on their way; may be negative: they may come before they are expected

  static State of(uint64_t word) {
    State state;
    state.phase = word & 1;
    state.missing = word >> 1 & 0x7ff;
    state.count = word >> 12 & 0x7ff;
    state.bytes = static_cast<int64_t>(word << 7) >> 30;
    require(word >> 57 == kMark && state.count > 0, "an mbarrier is used that was not initialised");
    return state;
  }
  uint64_t word() const {
    return kMark << 57 | (static_cast<uint64_t>(bytes) & 0x3ffffffffull) << 23 | uint64_t{count} << 12 |
           uint64_t{missing} << 1 | phase;
  }
};

using Word = std::atomic_ref<uint64_t>;

}  // namespace

void Barrier::init(uint32_t count) {
  require(count > 0 && count < 2048, "an mbarrier of so many arrivals");
  Word(*word_).store(State{0, count, count, 0}.word(), std::memory_order_release);
}

void Barrier::change(uint32_t arrivals, int64_t bytes) {
  uint64_t seen = Word(*word_).load(std::memory_order_relaxed);
  bool is_over = false;
  for (uint64_t next = 0;;) {
    State state = State::of(seen);
    require(arrivals <= state.missing, "more threads arrive at an mbarrier than it waits for");
    state.missing -= arrivals;
    state.bytes += bytes;
    is_over = state.missing == 0 && state.bytes == 0;
    if (is_over) {
      state.phase ^= 1;
      state.missing = state.count;
    }
    next = state.word();
    if (Word(*word_).compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_relaxed)) break;
  }
  if (is_over) Block::wake_owner(word_);
}

bool Barrier::is_over(uint32_t parity) const {
  return State::of(Word(*word_).load(std::memory_order_acquire)).phase != (parity & 1);
}

}  // namespace mk::soft_gpu

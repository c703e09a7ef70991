// SPDX-License-Identifier: MIT
// tests/support/ring_memory.h — zeroed memory of one ring.
#pragma once

#include <cstdint>
#include <vector>

#include "base/atomics.h"
#include "core/ring.h"

namespace mk::test {

using Producer = RingProducer<HostAtomics>;
using Consumer = RingConsumer<HostAtomics>;

class RingMemory {
 public:
  explicit RingMemory(uint32_t capacity) : slots_(capacity) {}
  RingMemory(const RingMemory&) = delete;

  RingView view() { return {slots_.data(), &claimed_, &consumed_, &completed_, static_cast<uint32_t>(slots_.size())}; }
  uint64_t consumed() const { return HostAtomics::load_acquire(&consumed_); }
  uint64_t completed() const { return HostAtomics::load_acquire(&completed_); }

 private:
  std::vector<Command> slots_;
  uint64_t claimed_ = 0;
  uint64_t consumed_ = 0;
  uint64_t completed_ = 0;
};

// A command every word of which depends on `number`, so that a half-written one shows.
inline Command numbered_command(uint64_t number) {
  const auto low = static_cast<uint32_t>(number);
  return {number, number + 1, number + 2, low + 3, low + 4, low + 5, low + 6, low + 7, low + 8, number + 9, 0};
}

inline bool is_whole(const Command& command) {
  const Command expected = numbered_command(command.from_offset);
  return command.to_offset == expected.to_offset && command.bytes == expected.bytes &&
         command.from_window == expected.from_window && command.to_window == expected.to_window &&
         command.signal_window == expected.signal_window && command.signal_index == expected.signal_index &&
         command.amount == expected.amount && command.to_rank == expected.to_rank && command.stamp == expected.stamp;
}

}  // namespace mk::test

// SPDX-License-Identifier: MIT
// core/command.h — what a worker hands to the network.
//
// Put is how a protocol says it; Command is the same in 64 bytes, as it lies in a ring slot.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "core/payment.h"
#include "core/signal.h"
#include "core/window.h"

namespace mk {

// Copy `bytes` from a window of this rank to a window of `signal.rank`, then pay the signal there: add `amount` to it,
// or raise it to `stamp` (core/signal.h).  Zero bytes: only the signal.
struct Put {
  Place from;
  Place to;
  uint64_t bytes = 0;
  Signal signal;
  uint32_t amount = 1;
  uint64_t stamp = 0;  // 0: none; else `amount` is not used
};

struct alignas(16) Command {
  uint64_t from_offset = 0;
  uint64_t to_offset = 0;
  uint64_t bytes = 0;
  uint32_t from_window = 0;  // the World's window numbers
  uint32_t to_window = 0;
  uint32_t signal_window = 0;
  uint32_t signal_index = 0;
  uint32_t amount = 0;
  uint32_t to_rank = 0;
  uint64_t stamp = 0;
  uint64_t seal = 0;  // stored last; see ring.h
};
static_assert(sizeof(Command) == 64, "a command is one cache line");

MK_HD inline Command to_command(const Put& put, const WindowTable& windows) {
  Command command;
  command.from_offset = put.from.offset;
  command.to_offset = put.to.offset;
  command.bytes = put.bytes;
  command.from_window = windows.id[put.from.window];
  command.to_window = windows.id[put.to.window];
  command.signal_window = windows.id[kSignalWindow];
  command.signal_index = put.signal.index;
  command.amount = put.amount;
  command.to_rank = static_cast<uint32_t>(put.signal.rank);
  command.stamp = put.stamp;
  return command;
}

// All but the seal.  Member by member: memcpy makes a GPU write it byte by byte, each a write of its own over PCIe.
MK_HD inline void copy_unsealed(Command& to, const Command& from) {
  to.from_offset = from.from_offset;
  to.to_offset = from.to_offset;
  to.bytes = from.bytes;
  to.from_window = from.from_window;
  to.to_window = from.to_window;
  to.signal_window = from.signal_window;
  to.signal_index = from.signal_index;
  to.amount = from.amount;
  to.to_rank = from.to_rank;
  to.stamp = from.stamp;
}

MK_HD inline Payment payment_of(const Command& command) { return {command.amount, command.stamp}; }

}  // namespace mk

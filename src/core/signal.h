// SPDX-License-Identifier: MIT
// core/signal.h — how one rank tells another that bytes have landed.
//
// A signal is a 64-bit counter in symmetric memory that only grows, so it is never reset between
// launches: in launch `epoch` a waiter wants epoch × (what one launch pays).  Adding to a signal
// releases every earlier write of the adder; seeing it acquires them.  Each rank waits on its own
// signals only.  A signal is paid over NVLink or by puts, never both, and if by puts, by one rank only:
// a NIC without atomics can then write the total.
//
// A signal for data that does not exist in every launch is stamped instead: a put sets it to a value that carries the
// epoch (core/stamp.h).  It has one payer, which always stamps it and never adds.  It grows, too: a stamp that is not
// larger than what the signal holds changes nothing.  Who sees a stamp sees the bytes of the put that carried it, and
// learns nothing about puts with smaller stamps, which may still be on their way.
#pragma once

#include <cstdint>

namespace mk {

struct Signal {
  int rank = 0;        // where the counter lives
  uint32_t index = 0;  // which of the plan's counters
};

}  // namespace mk

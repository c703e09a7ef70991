// SPDX-License-Identifier: MIT
// core/wait_due.h — waits for counters whose amount differs from launch to launch: what is due lies in memory.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "core/machine.h"

namespace mk {

// Until `signal` has reached `times` what the two words at `due` hold, low word first.
struct DueWait {
  static constexpr uint32_t kNoSignal = 0xffffffffu;  // nothing to wait for

  uint32_t signal = kNoSignal;
  Place due;
  uint64_t times = 1;
};

// How much that is.
MK_PROTOCOL
template <Machine M>
MK_HD uint64_t read_due(M& m, const DueWait& of) {
  const auto words = m.read_list(of.due, 2, sizeof(uint32_t));
  return (uint64_t{words[1]} << 32 | words[0]) * of.times;
}

MK_PROTOCOL
template <Machine M>
MK_HD bool wait_due(M& m, const DueWait& of, int64_t subject) {
  return of.signal == DueWait::kNoSignal || m.wait(of.signal, read_due(m, of), subject);
}

// For all of of(0) … of(count - 1), at most kMostValues; `subject` is that of the first, and the others follow.  A
// machine may have a wait_each_due of its own, which looks at all of them at once: each thread of the worker calls `of`
// for itself.
MK_PROTOCOL
template <Machine M, class Of>
MK_HD bool wait_each_due(M& m, int count, const Of& of, int64_t subject) {
  if constexpr (requires { m.wait_each_due(count, of, subject); }) {
    return m.wait_each_due(count, of, subject);
  } else {
    for (int i = 0; i < count; ++i) {
      if (!wait_due(m, of(i), subject + i)) return false;
    }
    return true;
  }
}

}  // namespace mk

// SPDX-License-Identifier: MIT
// core/store_each.h — says that bytes were written at many places.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "core/machine.h"

namespace mk {

// At to_at(0) … to_at(count - 1), at most kMostValues, as Machine's store for each.  A machine may have a store_each of
// its own: each thread of the worker calls `to_at` for itself.
MK_PROTOCOL
template <Machine M, class ToAt>
MK_HD void store_each(M& m, int count, const ToAt& to_at, uint64_t bytes) {
  if constexpr (requires { m.store_each(count, to_at, bytes); }) {
    m.store_each(count, to_at, bytes);
  } else {
    for (int i = 0; i < count; ++i) m.store(to_at(i), bytes);
  }
}

}  // namespace mk

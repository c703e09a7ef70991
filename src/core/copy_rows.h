// SPDX-License-Identifier: MIT
// core/copy_rows.h — copies of many rows at once, and of a few bytes.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "core/machine.h"

namespace mk {

// Rows from many places to places that follow each other.  from_at(i) is where row i lies; all lie at one rank.  All
// threads of the worker call it together, each for a row that it wants; a row may be asked for more than once.  A
// machine may have a copy_rows of its own, which does the same with more copies under way.
MK_PROTOCOL
template <Machine M, class FromAt>
MK_HD void copy_rows(M& m, const Place& to, int rows, uint64_t bytes, const FromAt& from_at) {
  if constexpr (requires { m.copy_rows(to, rows, bytes, from_at); }) {
    m.copy_rows(to, rows, bytes, from_at);
  } else {
    for (int i = 0; i < rows; ++i) m.copy(Place{to.window, to.rank, to.offset + i * bytes}, from_at(i), bytes);
  }
}

// A copy of at most kMostFewBytes, a multiple of 16.  A machine may have a copy_few of its own: its threads copy a
// vector each, where a copy engine would take longer to begin.
constexpr uint64_t kMostFewBytes = 512;
MK_PROTOCOL
template <Machine M>
MK_HD void copy_few(M& m, const Place& to, const Place& from, uint64_t bytes) {
  if constexpr (requires { m.copy_few(to, from, bytes); }) {
    m.copy_few(to, from, bytes);
  } else {
    m.copy(to, from, bytes);
  }
}

}  // namespace mk

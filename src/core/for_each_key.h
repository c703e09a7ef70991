// SPDX-License-Identifier: MIT
// core/for_each_key.h — how often each of a few numbers occurs.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "core/machine.h"
#include "core/value_list.h"

namespace mk {

// Calls visit(key, how many) once for each number among key_of(0) … key_of(count - 1), at most kMostValues, in the
// order in which they occur first.  A machine may have a for_each_key of its own: each thread of the worker calls
// `key_of` for itself, and all threads call `visit` together.
MK_PROTOCOL
template <Machine M, class KeyOf, class Visit>
MK_HD void for_each_key(M& m, int count, const KeyOf& key_of, const Visit& visit) {
  if constexpr (requires { m.for_each_key(count, key_of, visit); }) {
    m.for_each_key(count, key_of, visit);
  } else {
    for (int i = 0; i < count; ++i) {
      const uint32_t key = key_of(i);
      int many = 0;
      bool is_first = true;
      for (int j = 0; j < count; ++j) {
        if (key_of(j) != key) continue;
        is_first = is_first && j >= i;
        ++many;
      }
      if (is_first) visit(key, many);
    }
  }
}

}  // namespace mk

// SPDX-License-Identifier: MIT
// core/value_list.h — values that a machine reads at once, as a host keeps them.
#pragma once

#include <array>
#include <cstdint>

#include "core/window.h"

namespace mk {

// A warp reads a value with each of its lanes.
constexpr int kMostValues = 32;

// own(i): the same value, asked for by the thread of the worker that wants it: on a GPU by lane i for itself.
// count_if(some, is): for how many of the first `some` is(value) holds.
struct ValueList {
  std::array<uint32_t, kMostValues> values{};
  constexpr uint32_t operator[](int i) const { return values[i]; }
  constexpr uint32_t own(int i) const { return values[i]; }
  template <class Is>
  constexpr int count_if(int some, const Is& is) const {
    int count = 0;
    for (int i = 0; i < some; ++i) count += is(values[i]) ? 1 : 0;
    return count;
  }
};

// For machines that read one value at a time.
template <class M>
ValueList read_each(M& m, const Place& from, int count, uint64_t stride) {
  ValueList list;
  for (int i = 0; i < count; ++i) list.values[i] = m.read({from.window, from.rank, from.offset + i * stride});
  return list;
}

}  // namespace mk

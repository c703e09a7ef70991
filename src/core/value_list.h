// SPDX-License-Identifier: MIT
// core/value_list.h — values that a machine reads at once, as a host keeps them.
#pragma once

#include <array>
#include <cstdint>

#include "core/window.h"

namespace mk {

// A warp reads a value with each of its lanes.
constexpr int kMostValues = 32;

struct ValueList {
  std::array<uint32_t, kMostValues> values{};
  constexpr uint32_t operator[](int i) const { return values[i]; }
};

// For machines that read one value at a time.
template <class M>
ValueList read_each(M& m, const Place& from, int count, uint64_t stride) {
  ValueList list;
  for (int i = 0; i < count; ++i) list.values[i] = m.read({from.window, from.rank, from.offset + i * stride});
  return list;
}

}  // namespace mk

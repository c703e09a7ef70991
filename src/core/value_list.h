// SPDX-License-Identifier: MIT
// core/value_list.h — a few values that all threads of a worker index, as a host keeps them.
#pragma once

#include <array>
#include <cstdint>

#include "base/macros.h"
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

// value_of(0) … value_of(count - 1), at most kMostValues.  A machine may have a list_of of its own: each thread of the
// worker calls `value_of` for itself.
MK_PROTOCOL
template <class M, class ValueOf>
MK_HD auto list_of(M& m, int count, const ValueOf& value_of) {
  if constexpr (requires { m.list_of(count, value_of); }) {
    return m.list_of(count, value_of);
  } else {
    ValueList list;
    for (int i = 0; i < count; ++i) list.values[i] = value_of(i);
    return list;
  }
}

// What `read` finds at place_of(0) …, where that is a place; likewise.
constexpr Place kNowhere{.window = 0xffffffffu};
MK_PROTOCOL
template <class M, class PlaceOf>
MK_HD auto read_places(M& m, int count, const PlaceOf& place_of) {
  if constexpr (requires { m.read_places(count, place_of); }) {
    return m.read_places(count, place_of);
  } else {
    return list_of(m, count, [&](int i) {
      const Place place = place_of(i);
      return place.window == kNowhere.window ? uint32_t{0} : m.read(place);
    });
  }
}

// For machines that read one value at a time.
template <class M>
ValueList read_each(M& m, const Place& from, int count, uint64_t stride) {
  ValueList list;
  for (int i = 0; i < count; ++i) list.values[i] = m.read({from.window, from.rank, from.offset + i * stride});
  return list;
}

}  // namespace mk

// SPDX-License-Identifier: MIT
// core/window.h — symmetric memory: a place is (window, rank, offset).
//
// Every rank has each window, in the same size.  Inside a node a place resolves to a pointer; across
// nodes it travels in a Command and the fabric resolves it.  The first slots are the caller's own inputs
// of this launch: only its own rank may read them, and no put may start from them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"
#include "core/world_shape.h"

namespace mk {

constexpr uint32_t kMostInputs = 4;
constexpr uint32_t kInputWindow = 0;  // the first input; the others follow
constexpr uint32_t kSignalWindow = kInputWindow + kMostInputs;
constexpr uint32_t kFirstOperatorWindow = kSignalWindow + 1;

MK_HD constexpr bool is_input(uint32_t window) { return window < kSignalWindow; }

struct Place {
  uint32_t window = 0;  // slot in the plan's table
  int rank = 0;
  uint64_t offset = 0;  // bytes
};

// One rank's view of a plan's windows.  Trivially copyable: it travels in kernel parameters.
struct WindowTable {
  std::byte* const* base = nullptr;  // [slot · ranks + local], this node's
  const uint32_t* id = nullptr;      // [slot], the World's number for the window
  int ranks = 1;
  const std::byte* inputs[kMostInputs] = {};

  MK_HD std::byte* resolve(const WorldShape& world, const Place& place) const {
    if (is_input(place.window)) return const_cast<std::byte*>(inputs[place.window]) + place.offset;
    return base[place.window * ranks + world.local_of(place.rank)] + place.offset;
  }
  MK_HD uint64_t* resolve(const WorldShape& world, int rank, uint32_t signal) const {
    return reinterpret_cast<uint64_t*>(base[kSignalWindow * ranks + world.local_of(rank)]) + signal;
  }
};

}  // namespace mk

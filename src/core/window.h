// SPDX-License-Identifier: MIT
// core/window.h — symmetric memory: a place is (window, rank, offset).
//
// Every rank has each window, in the same size.  Inside a node a place resolves to a pointer; across
// nodes it travels in a Command and the fabric resolves it.  Slot kInputWindow is the caller's own
// input of this launch: only its own rank may read it, and no put may start from it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"
#include "core/world_shape.h"

namespace mk {

constexpr uint32_t kInputWindow = 0;
constexpr uint32_t kSignalWindow = 1;
constexpr uint32_t kFirstOperatorWindow = 2;

struct Place {
  uint32_t window = 0;  // slot in the plan's table
  int rank = 0;
  uint64_t offset = 0;  // bytes
};

// One rank's view of a plan's windows.  Trivially copyable: it travels in kernel parameters.
struct WindowTable {
  std::byte* const* base = nullptr;  // [slot · ranks + local], this node's
  const uint32_t* id = nullptr;      // [slot], the World's number for the window
  const std::byte* input = nullptr;
  int ranks = 1;

  MK_HD std::byte* resolve(const WorldShape& world, const Place& place) const {
    if (place.window == kInputWindow) return const_cast<std::byte*>(input) + place.offset;
    return base[place.window * ranks + world.local_of(place.rank)] + place.offset;
  }
  MK_HD uint64_t* resolve(const WorldShape& world, int rank, uint32_t signal) const {
    return reinterpret_cast<uint64_t*>(base[kSignalWindow * ranks + world.local_of(rank)]) + signal;
  }
};

}  // namespace mk

// SPDX-License-Identifier: MIT
// transport/resolved_put.h — a Command with pointers in place of window numbers.
#pragma once

#include <cstdint>
#include <string>

#include "core/command.h"
#include "transport/window_registry.h"

namespace mk {

struct ResolvedPut {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  uint64_t bytes = 0;
  uint64_t* signal = nullptr;
  Payment pays;

  bool valid() const { return from != nullptr && to != nullptr && signal != nullptr; }
};

inline ResolvedPut resolve(const Command& c, uint32_t from_rank, const WindowRegistry& windows) {
  return {windows.find(c.from_window, from_rank, c.from_offset, c.bytes),
          windows.find(c.to_window, c.to_rank, c.to_offset, c.bytes), c.bytes,
          reinterpret_cast<uint64_t*>(
              windows.find(c.signal_window, c.to_rank, uint64_t{c.signal_index} * sizeof(uint64_t), sizeof(uint64_t))),
          payment_of(c)};
}

// What a fabric says when a command does not resolve.
std::string describe_bad_put(const Command& command, uint32_t from_rank);

}  // namespace mk

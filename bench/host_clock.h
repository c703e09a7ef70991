// SPDX-License-Identifier: MIT
// bench/host_clock.h — the clock that paces what the host drives.
#pragma once

#include <chrono>
#include <cstdint>

namespace mk::bench {

inline uint64_t host_now_ns() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// transport/free_memory.h — how much memory this process can still take before the kernel's OOM killer acts.
#pragma once

#include <cstdint>
#include <string>

namespace mk {

struct FreeMemory {
  uint64_t bytes = UINT64_MAX;           // the least that any limit leaves; caches and free swap count as free
  std::string limit = "unknown limits";  // what leaves no more: the machine's memory, or a cgroup's by its path
};

// `root` is where /proc and /sys are found, for tests.  What cannot be read does not limit.
FreeMemory free_memory(const std::string& root = "");

}  // namespace mk

// SPDX-License-Identifier: MIT
// transport/window_registry.h — where the windows of all ranks in this process lie.
//
// A fabric looks every place up here, so a command that points outside a window fails the fabric
// instead of overwriting memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace mk {

class WindowRegistry {
 public:
  // One base per rank; the number is what Commands carry.
  uint32_t add(std::vector<std::byte*> bases, uint64_t bytes) {
    const std::unique_lock lock(mutex_);
    windows_.push_back({std::move(bases), bytes});
    return static_cast<uint32_t>(windows_.size() - 1);
  }

  // Null if the range is not inside the window.
  std::byte* find(uint32_t window, uint32_t rank, uint64_t offset, uint64_t bytes) const {
    const std::shared_lock lock(mutex_);
    if (window >= windows_.size() || rank >= windows_[window].bases.size()) return nullptr;
    const uint64_t size = windows_[window].bytes;
    if (bytes > size || offset > size - bytes) return nullptr;
    return windows_[window].bases[rank] + offset;
  }

 private:
  struct Entry {
    std::vector<std::byte*> bases;
    uint64_t bytes;
  };
  mutable std::shared_mutex mutex_;
  std::vector<Entry> windows_;
};

}  // namespace mk

// SPDX-License-Identifier: MIT
// transport/window_registry.h — how large the windows are, and where those of ranks in this process lie.
//
// A fabric looks every place up here, so a command that points outside a window fails the fabric
// instead of overwriting memory.  A window is in the registries of all ranks before any of them puts into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

namespace mk {

class WindowRegistry {
 public:
  // One base per rank, null for ranks of other processes; the number is what Commands carry.  One handle per rank that
  // is here, if others of this machine may map its part.
  uint32_t add(std::vector<std::byte*> bases, uint64_t bytes, std::vector<std::string> handles = {}) {
    const std::unique_lock lock(mutex_);
    handles.resize(bases.size());
    windows_.push_back({std::move(bases), bytes, std::move(handles)});
    return static_cast<uint32_t>(windows_.size() - 1);
  }

  // Null if the range is not inside the window, or lies in another process.
  std::byte* find(uint32_t window, uint32_t rank, uint64_t offset, uint64_t bytes) const {
    const std::shared_lock lock(mutex_);
    if (!holds(window, offset, bytes) || rank >= windows_[window].bases.size()) return nullptr;
    std::byte* const base = windows_[window].bases[rank];
    return base == nullptr ? nullptr : base + offset;
  }

  // Of a window that is there.
  std::string handle(uint32_t window, int rank) const {
    const std::shared_lock lock(mutex_);
    return windows_.at(window).handles.at(rank);
  }

  // Whether the range is inside the window, which has one size on all ranks.
  bool contains(uint32_t window, uint64_t offset, uint64_t bytes) const {
    const std::shared_lock lock(mutex_);
    return holds(window, offset, bytes);
  }

  // 0 if there is no such window.
  uint64_t bytes(uint32_t window) const {
    const std::shared_lock lock(mutex_);
    return window < windows_.size() ? windows_[window].bytes : 0;
  }

 private:
  bool holds(uint32_t window, uint64_t offset, uint64_t bytes) const {
    if (window >= windows_.size()) return false;
    const uint64_t size = windows_[window].bytes;
    return bytes <= size && offset <= size - bytes;
  }

  struct Entry {
    std::vector<std::byte*> bases;
    uint64_t bytes;
    std::vector<std::string> handles;
  };
  mutable std::shared_mutex mutex_;
  std::vector<Entry> windows_;
};

}  // namespace mk

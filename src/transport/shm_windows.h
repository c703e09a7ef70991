// SPDX-License-Identifier: MIT
// transport/shm_windows.h — the windows of a rank's rail, mapped into this process.
//
// The thread that makes plans adds them, the proxy's thread looks them up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "transport/shared_memory.h"

namespace mk {

class ShmWindows {
 public:
  void add(uint32_t window, uint32_t rank, SharedMemory memory) {
    const std::unique_lock lock(mutex_);
    mapped_.emplace(std::pair(window, rank), std::move(memory));
  }

  // Null if it was not added.
  std::byte* base(uint32_t window, uint32_t rank) const {
    const std::shared_lock lock(mutex_);
    const auto found = mapped_.find({window, rank});
    return found == mapped_.end() ? nullptr : found->second.data();
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::pair<uint32_t, uint32_t>, SharedMemory> mapped_;  // by window and rank
};

}  // namespace mk

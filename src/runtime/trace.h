// SPDX-License-Identifier: MIT
// runtime/trace.h — collects what workers note, when Options::trace is set.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "core/event.h"

namespace mk::runtime {

class Trace {
 public:
  void append(const std::vector<EventRecord>& of_worker) {
    const std::lock_guard lock(mutex_);
    records_.insert(records_.end(), of_worker.begin(), of_worker.end());
  }
  std::vector<EventRecord> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(records_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<EventRecord> records_;
};

}  // namespace mk::runtime

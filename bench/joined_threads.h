// SPDX-License-Identifier: MIT
// bench/joined_threads.h — threads that are joined, also if one of them could not be started or threw.
#pragma once

#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "transport/start_thread.h"

namespace mk::bench {

class JoinedThreads {
 public:
  JoinedThreads() = default;
  JoinedThreads(const JoinedThreads&) = delete;
  ~JoinedThreads() { join_all(); }

  // Throws Error if there is none to be had.
  template <class Function>
  void start(Function&& function) {
    threads_.reserve(threads_.size() + 1);  // a thread that runs and has no place would end the process
    threads_.push_back(start_thread("a benchmark", [this, function = std::forward<Function>(function)] {
      try {
        function();
      } catch (...) {
        const std::lock_guard lock(mutex_);
        trouble_ = std::current_exception();
      }
    }));
  }

  // Throws what a thread threw.
  void join() {
    join_all();
    if (trouble_ != nullptr) std::rethrow_exception(std::exchange(trouble_, nullptr));
  }

 private:
  void join_all() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  std::mutex mutex_;
  std::exception_ptr trouble_;
  std::vector<std::thread> threads_;
};

}  // namespace mk::bench

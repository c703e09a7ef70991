// SPDX-License-Identifier: MIT
// bench/joined_threads.h — threads that are joined by the destructor, also if one of them could not be started.
#pragma once

#include <thread>
#include <utility>
#include <vector>

#include "transport/start_thread.h"

namespace mk::bench {

class JoinedThreads {
 public:
  JoinedThreads() = default;
  JoinedThreads(const JoinedThreads&) = delete;
  ~JoinedThreads() { join(); }

  // Throws Error if there is none to be had.
  template <class Function>
  void start(Function&& function) {
    threads_.push_back(start_thread("a benchmark", std::forward<Function>(function)));
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace mk::bench

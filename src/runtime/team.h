// SPDX-License-Identifier: MIT
// runtime/team.h — the threads of one rank: a queue of launches, run one after the other.
//
// A launch starts only when every worker of the one before has returned, as kernels on a stream do.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace mk::runtime {

class Team {
 public:
  using Job = std::function<void(int worker)>;

  // `whose` they are, for Errors.
  explicit Team(std::string whose = "a team") : whose_(std::move(whose)) {}
  Team(const Team&) = delete;
  ~Team();

  // Queues job(0) … job(workers-1), each on its own thread.  Throws Error, and queues nothing, if one cannot be
  // started.
  void submit(int workers, Job job);

  // Waits until everything submitted has returned.
  void drain();

 private:
  struct Launch {
    int workers;
    int unfinished;
    Job job;
  };

  void work(int worker, uint64_t next);

  std::string whose_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Launch> queue_;  // front is running
  uint64_t submitted_ = 0;
  uint64_t finished_ = 0;
  bool quit_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace mk::runtime

// SPDX-License-Identifier: MIT
// runtime/team.cc — see team.h.
#include "runtime/team.h"

#include <utility>

#include "transport/start_thread.h"

namespace mk::runtime {

Team::~Team() {
  drain();
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::submit(int workers, Job job) {
  const std::lock_guard lock(mutex_);
  threads_.reserve(workers);  // a thread that has started but has no place in the vector would end the process
  while (static_cast<int>(threads_.size()) < workers) {
    const int worker = static_cast<int>(threads_.size());
    threads_.push_back(start_thread(fmt::format("worker {} of {}", worker, whose_),
                                    [this, worker, next = submitted_] { work(worker, next); }));
  }
  // Every thread takes part in every launch, if only to step over it.
  queue_.push_back({workers, static_cast<int>(threads_.size()), std::move(job)});
  ++submitted_;
  changed_.notify_all();
}

void Team::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_ == submitted_; });
}

void Team::work(int worker, uint64_t next) {
  std::unique_lock lock(mutex_);
  for (;; ++next) {
    changed_.wait(lock, [&] { return quit_ || (finished_ == next && next < submitted_); });
    if (finished_ != next || next >= submitted_) return;
    Launch& launch = queue_.front();
    if (worker < launch.workers) {
      lock.unlock();
      launch.job(worker);  // the front of a deque does not move while others are pushed
      lock.lock();
    }
    if (--launch.unfinished == 0) {
      queue_.pop_front();
      ++finished_;
      changed_.notify_all();
    }
  }
}

}  // namespace mk::runtime

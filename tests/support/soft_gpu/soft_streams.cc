// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_streams.cc — see soft_streams.h.
#include "tests/support/soft_gpu/soft_streams.h"

#include <set>
#include <utility>

namespace mk::soft_gpu {
namespace {

// Never destroyed: streams may outlive main.
struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<Stream*> streams;
  int captures = 0;
};
Shared& shared() {
  static Shared* const all = new Shared;
  return *all;
}

template <class Ready>
void wait_until(std::unique_lock<std::mutex>& lock, const Ready& is_ready) {
  shared().changed.wait(lock, is_ready);
}

void reach(Event& event, uint64_t number) {
  const std::lock_guard lock(shared().mutex);
  event.reached = std::max(event.reached, number);
  event.at = std::chrono::steady_clock::now();
  shared().changed.notify_all();
}

// One after the other; `reached` are the events of this replay.
void run_lane(const std::vector<Graph::Step>& steps, std::set<Event*>& reached) {
  for (const Graph::Step& step : steps) {
    std::unique_lock lock(shared().mutex);
    switch (step.kind) {
      case Graph::Step::Kind::kTask:
        lock.unlock();
        step.task();
        break;
      case Graph::Step::Kind::kRecord:
        reached.insert(step.event);
        shared().changed.notify_all();
        break;
      case Graph::Step::Kind::kWait: wait_until(lock, [&] { return reached.contains(step.event); }); break;
    }
  }
}

}  // namespace

Stream::Stream() : thread_([this] { work(); }) {
  const std::lock_guard lock(shared().mutex);
  shared().streams.insert(this);
}

Stream::~Stream() {
  {
    const std::lock_guard lock(shared().mutex);
    ends_ = true;
    shared().streams.erase(this);
    shared().changed.notify_all();
  }
  thread_.join();
}

void Stream::work() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(shared().mutex);
      is_busy_ = false;
      shared().changed.notify_all();
      wait_until(lock, [&] { return ends_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      is_busy_ = true;
    }
    task();
  }
}

void Stream::give(std::function<void()> task) {
  const std::lock_guard lock(shared().mutex);
  if (graph_ != nullptr) {
    graph_->lanes[this].push_back({Graph::Step::Kind::kTask, std::move(task), nullptr});
    return;
  }
  tasks_.push_back(std::move(task));
  shared().changed.notify_all();
}

void Stream::record(Event& event) {
  const std::lock_guard lock(shared().mutex);
  event.graph = graph_;
  if (graph_ != nullptr) {
    graph_->lanes[this].push_back({Graph::Step::Kind::kRecord, {}, &event});
    return;
  }
  const uint64_t number = ++event.recorded;
  tasks_.push_back([&event, number] { reach(event, number); });
  shared().changed.notify_all();
}

void Stream::wait_for(Event& event) {
  const std::lock_guard lock(shared().mutex);
  if (event.graph != nullptr) {
    graph_ = event.graph;
    graph_->lanes[this].push_back({Graph::Step::Kind::kWait, {}, &event});
    return;
  }
  const uint64_t number = event.recorded;
  tasks_.push_back([&event, number] {
    std::unique_lock held(shared().mutex);
    wait_until(held, [&] { return event.reached >= number; });
  });
  shared().changed.notify_all();
}

void Stream::synchronize() {
  std::unique_lock lock(shared().mutex);
  wait_until(lock, [&] { return tasks_.empty() && !is_busy_; });
}

bool Stream::is_idle() {
  const std::lock_guard lock(shared().mutex);
  return tasks_.empty() && !is_busy_;
}

void Stream::begin_capture() {
  const std::lock_guard lock(shared().mutex);
  captured_ = std::make_unique<Graph>();
  graph_ = captured_.get();
  ++shared().captures;
}

std::unique_ptr<Graph> Stream::end_capture() {
  const std::lock_guard lock(shared().mutex);
  for (Stream* const stream : shared().streams) {
    if (stream->graph_ == captured_.get()) stream->graph_ = nullptr;
  }
  --shared().captures;
  return std::move(captured_);
}

bool Stream::is_captured() {
  const std::lock_guard lock(shared().mutex);
  return graph_ != nullptr;
}

void Stream::replay(std::shared_ptr<const Graph> graph) {
  give([graph = std::move(graph)] {
    std::set<Event*> reached;
    std::vector<std::thread> lanes;
    for (const auto& [stream, steps] : graph->lanes) {
      lanes.emplace_back([&steps = steps, &reached] { run_lane(steps, reached); });
    }
    for (std::thread& lane : lanes) lane.join();
  });
}

bool is_reached(const Event& event) {
  const std::lock_guard lock(shared().mutex);
  return event.reached >= event.recorded;
}

void synchronize(const Event& event) {
  std::unique_lock lock(shared().mutex);
  wait_until(lock, [&] { return event.reached >= event.recorded; });
}

void synchronize_all() {
  std::unique_lock lock(shared().mutex);
  wait_until(lock, [] {
    for (Stream* const stream : shared().streams) {
      if (!stream->tasks_.empty() || stream->is_busy_) return false;
    }
    return true;
  });
}

bool is_capturing() {
  const std::lock_guard lock(shared().mutex);
  return shared().captures > 0;
}

}  // namespace mk::soft_gpu

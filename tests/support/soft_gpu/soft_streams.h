// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_streams.h — streams, events and captured graphs of the software GPU.
//
// A stream is a thread of the host that does one thing after the other.  While a stream is captured, what it is given
// goes into a graph instead; a stream that waits for an event of a captured stream is captured, too.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace mk::soft_gpu {

class Stream;

// A mark in a stream: how often it was recorded, and how often that was reached.
struct Event {
  uint64_t recorded = 0;
  uint64_t reached = 0;
  std::chrono::steady_clock::time_point at;
  struct Graph* graph = nullptr;  // in which it was recorded last
};

// What streams were given while they were captured.
struct Graph {
  struct Step {
    enum class Kind { kTask, kRecord, kWait } kind = Kind::kTask;
    std::function<void()> task;
    Event* event = nullptr;
  };
  std::map<Stream*, std::vector<Step>> lanes;
};

// All of a process share a lock and a condition: they change seldom.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;

  void give(std::function<void()> task);
  void record(Event& event);
  void wait_for(Event& event);
  void synchronize();
  bool is_idle();

  void begin_capture();
  std::unique_ptr<Graph> end_capture();
  bool is_captured();
  // After what the stream has: lanes of the graph side by side.
  void replay(std::shared_ptr<const Graph> graph);

 private:
  friend void synchronize_all();
  void work();

  std::deque<std::function<void()>> tasks_;
  bool is_busy_ = false;
  bool ends_ = false;
  Graph* graph_ = nullptr;           // that captures this stream
  std::unique_ptr<Graph> captured_;  // begun by this stream
  std::thread thread_;
};

bool is_reached(const Event& event);
void synchronize(const Event& event);
void synchronize_all();
// Whether some stream is captured.
bool is_capturing();

}  // namespace mk::soft_gpu

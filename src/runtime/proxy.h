// SPDX-License-Identifier: MIT
// runtime/proxy.h — the thread that carries a rank's commands from its ring to its fabric.
//
// The workers decide what moves and when; the proxy only posts it and reports completion.  A fabric
// that fails raises the stop word, which every wait of every worker watches.
//
// A proxy with nothing to do spins, then yields its core, then naps between looks.  `patience` is how long it stays
// awake at least since something moved.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/atomics.h"
#include "core/ring.h"
#include "transport/fabric.h"

namespace mk::runtime {

// What is asked for if the machine has two cores for each proxy, else none: proxies must not take the cores of the
// threads that launch.
constexpr std::chrono::microseconds affordable_patience(std::chrono::microseconds asked, unsigned num_proxies,
                                                        unsigned num_cores) {
  return num_proxies <= num_cores / 2 ? asked : std::chrono::microseconds{0};
}

class Proxy {
 public:
  Proxy(RingView ring, std::unique_ptr<Fabric> fabric, uint64_t* stop, std::chrono::microseconds patience);
  Proxy(const Proxy&) = delete;
  ~Proxy();

  // Empty while all is well.
  std::string failure() const;

  uint64_t bytes_put() const { return bytes_put_.load(std::memory_order_relaxed); }

 private:
  void run();
  bool step();
  void fail();
  void publish_completed();

  RingConsumer<HostAtomics> ring_;
  std::unique_ptr<Fabric> fabric_;
  uint64_t* stop_;
  std::chrono::microseconds patience_;

  uint64_t completed_ = 0;         // all tickets below are complete
  std::set<uint64_t> ahead_;       // complete, but an earlier one is not
  std::vector<uint64_t> tickets_;  // poll's scratch
  std::atomic<uint64_t> bytes_put_{0};

  bool failed_ = false;  // the thread's own
  mutable std::mutex mutex_;
  std::string failure_;
  std::atomic<bool> quit_{false};
  std::thread thread_;
};

}  // namespace mk::runtime

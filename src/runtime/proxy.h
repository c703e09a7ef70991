// SPDX-License-Identifier: MIT
// runtime/proxy.h — the thread that carries a rank's commands from its ring to its fabric.
//
// The workers decide what moves and when; the proxy only posts it and reports completion.  A fabric
// that fails raises the stop word, which every wait of every worker watches.
//
// A proxy with nothing to do spins, then yields its core, then naps between looks: shortly at first, later longer.
//
// Commands that follow each other in the ring, are neighbours on both sides and pay the same signal are put as one,
// while they are small: one put carries their bytes and then the sum of their payments.  Whoever waits for the first of
// them may see it later, with the others, which are in the ring already and so wait for nobody.
// Commands with a stamp are never joined: stamps have no sum, and each may be waited for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/atomics.h"
#include "core/ring.h"
#include "mkernel/network_stats.h"
#include "runtime/completions.h"
#include "transport/fabric.h"

namespace mk::runtime {

// What is asked for if the machine has two cores for each proxy, else none: proxies must not take the cores of the
// threads that launch.
constexpr std::chrono::microseconds affordable_patience(std::chrono::microseconds asked, unsigned num_proxies,
                                                        unsigned num_cores) {
  return num_proxies <= num_cores / 2 ? asked : std::chrono::microseconds{0};
}

struct ProxySettings {
  std::chrono::microseconds patience{0};  // how long it stays awake at least since something moved or is to move
  std::vector<int> cores{};               // it stays on these, as far as it may; empty: anywhere
  int rank = 0;                           // whose it is, for Errors
};

class Proxy {
 public:
  Proxy(RingView ring, std::unique_ptr<Fabric> fabric, uint64_t* stop, const ProxySettings& settings);
  Proxy(const Proxy&) = delete;
  ~Proxy();

  // A launch is on its way: a proxy that naps wakes up before its first command is there.
  void expect_commands() { expected_.fetch_add(1, std::memory_order_relaxed); }

  // Empty while all is well.
  std::string failure() const;

  // Each number by itself is right; one may be ahead of another while commands come.
  NetworkStats stats() const;

 private:
  struct Counters {  // as NetworkStats; written by the thread alone
    std::atomic<uint64_t> commands{0}, puts{0}, bytes{0}, batches{0}, largest_batch{0}, full{0};
  };

  void run();
  bool step();
  bool carry();
  uint32_t take_commands();
  uint32_t join_following(Command& command) const;
  void count_put(const Command& command, uint32_t num_joined);
  void fail(std::string why);
  void publish_completed();

  RingConsumer<HostAtomics> ring_;
  std::unique_ptr<Fabric> fabric_;
  uint64_t* stop_;
  ProxySettings settings_;

  Completions completions_;
  std::vector<uint64_t> tickets_;  // poll's scratch
  bool was_full_ = false;
  Counters counters_;

  bool failed_ = false;  // the thread's own
  mutable std::mutex mutex_;
  std::string failure_;
  std::atomic<uint64_t> expected_{0};
  std::atomic<bool> quit_{false};
  std::thread thread_;
};

}  // namespace mk::runtime

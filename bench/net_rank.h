// SPDX-License-Identifier: MIT
// bench/net_rank.h — one of two ranks on two nodes that measure a fabric, each driven by one thread in a poll loop.
//
// As a proxy does, a rank spins on its fabric for a while and then yields its core between looks.  Every wait is
// bounded.  Throws Error if the fabric fails or the peer does not come.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/atomics.h"
#include "bench/net_memory.h"
#include "mkernel/error.h"
#include "mkernel/options.h"
#include "transport/bootstrap.h"
#include "transport/fabric_port.h"

namespace mk::bench {

constexpr std::chrono::milliseconds kNetDeadline{20'000};

class NetRank {
 public:
  // Both ranks at the same time.  `memory` and `registry`, which has it as `windows`, outlive the rank; `nics` is as
  // in Options.
  NetRank(std::string_view fabric, std::unique_ptr<Bootstrap> bootstrap, const NetMemory& memory,
          const WindowRegistry& registry, const NetMemory::Windows& windows, const Options& options);

  int rank() const { return bootstrap_->rank(); }
  int peer() const { return 1 - rank(); }
  const NetMemory& memory() const { return memory_; }

  // From and to the same offset of the halves.  Polls while the fabric is full.
  void put(uint64_t offset, uint64_t bytes, NetSignal signal, uint32_t amount = 1);

  uint64_t num_under_way() const { return num_put_ - num_completed_; }

  // Until the peer has paid `more` to the signal since it was last awaited.
  void await(NetSignal signal, uint64_t more);

  // What was paid to it beyond that.
  uint64_t unawaited(NetSignal signal) const {
    const uint64_t paid = HostAtomics::load_acquire(memory_.signal(rank(), signal));  // pairs with the fabric's payment
    return paid - awaited_[static_cast<uint32_t>(signal)];
  }

  template <class Holds>
  void poll_until(Holds&& holds) {
    Clock::time_point deadline{};
    for (uint64_t idle = 0; !holds(); ++idle) {
      poll();
      if (idle < kSpins) continue;
      std::this_thread::yield();
      const Clock::time_point now = Clock::now();
      if (deadline == Clock::time_point{}) deadline = now + kNetDeadline;
      if (now >= deadline) throw_late();
    }
  }

  // What the peer says.  The fabric is polled meanwhile: puts of the peer may need it.
  std::string meet(const std::string& mine);

  // The last meeting.  The fabric is gone afterwards.
  void part();

 private:
  static constexpr uint64_t kSpins = 2000;

  void poll();
  [[noreturn]] void throw_late() const;
  [[noreturn]] void throw_failed() const;

  const NetMemory& memory_;
  NetMemory::Windows windows_;
  std::unique_ptr<Bootstrap> bootstrap_;
  std::unique_ptr<FabricPort> port_;
  std::unique_ptr<Fabric> fabric_;
  uint64_t num_put_ = 0;
  uint64_t num_completed_ = 0;
  std::vector<uint64_t> tickets_;  // poll's scratch
  std::array<uint64_t, kNetSignals> awaited_{};
};

}  // namespace mk::bench

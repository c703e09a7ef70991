// SPDX-License-Identifier: MIT
// target/sim/sim_network.h — rings, proxies and the links between nodes.
//
// The ring is core/ring.h itself.  A put reads its source and writes its destination when it lands,
// pays its signal then, and completes later; puts land in any order their varied latencies give.  Where times are
// disturbed, some puts read their source earlier and may complete before they land.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "core/command.h"
#include "core/ring.h"
#include "target/sim/sim_core.h"
#include "target/sim/sim_memory.h"
#include "target/sim/sim_signals.h"

namespace mk::sim {

class SimNetwork {
 public:
  SimNetwork(SimCore& core, SimMemory& memory, SimSignals& signals);

  RingView ring(int rank);

  // `ring` is ring(worker.rank); tests may hand in a broken one.  On success `position` is the command's.
  bool put(Worker& worker, const RingView& ring, const Put& put, int64_t subject, uint64_t& position);
  bool settle(Worker& worker, uint64_t completed);

  // Starts the proxies' fibres, and lets them end.
  void open();
  void close();

  uint64_t bytes(int rank) const { return ends_.empty() ? 0 : ends_[rank].bytes; }

 private:
  // What travels beside a command: who pushed it, and what that one knew.
  struct Origin {
    ClockSnapshot clock;
    uint64_t epoch = 0;
    int64_t subject = -1;
  };
  struct End {  // of a rank
    std::vector<Command> slots;
    uint64_t claimed = 0;
    uint64_t consumed = 0;
    uint64_t completed = 0;
    std::vector<Origin> origins;  // by slot
    std::deque<bool> done;        // tickets from `completed` on
    Clock completed_clock;
    Waiters waiters;  // for consumed or completed
    int proxy = -1;   // fibre
    bool proxy_parked = false;
    int in_flight = 0;
    Link out;
    Link in;
    uint64_t bytes = 0;
  };

  // A put that has read its source.
  struct Taken {
    PutClock put;
    std::vector<std::byte> bytes;
  };

  void run_proxy(int rank);
  Time next_look(Time full_since) const;
  void start(int rank, const Command& command, uint64_t ticket, const Origin& origin);
  void land(int rank, const Command& command, uint64_t ticket, const Origin& origin);
  void take_along(int rank, const Command& command, uint64_t ticket, const Origin& origin);
  void pay(int rank, const Command& command, const ClockSnapshot& with);
  void complete(int rank, uint64_t ticket, const Clock& clock);

  SimCore& core_;
  SimMemory& memory_;
  SimSignals& signals_;
  std::vector<uint32_t> window_ids_;  // the identity: a slot is its own number here
  std::vector<End> ends_;
  bool closed_ = false;
};

}  // namespace mk::sim

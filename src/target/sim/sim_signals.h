// SPDX-License-Identifier: MIT
// target/sim/sim_signals.h — the signals of all ranks.
//
// A wait acquires no more than it asked for: the payments up to the value it wanted, even if more have
// arrived.  That is the least a real memory system gives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/rules.h"
#include "core/signal.h"
#include "target/sim/sim_core.h"
#include "target/sim/sim_memory.h"

namespace mk::sim {

class SimSignals {
 public:
  SimSignals(SimCore& core, SimMemory& memory);

  bool wait(Worker& worker, uint32_t signal, uint64_t wanted, int64_t subject);

  // Pays now; waiters see it a latency later.  `put_by` is the rank whose put pays, -1 for an add.
  void pay(const Signal& signal, uint64_t amount, const ClockSnapshot& clock, int put_by = -1);

  // Complains about the first signal that was not paid exactly what was awaited.
  void check_balance();

 private:
  struct Payment {
    uint64_t total;  // the value after it
    ClockSnapshot clock;
  };
  struct State {
    uint64_t value = 0;
    uint64_t awaited = 0;
    std::vector<Payment> payments;  // with data
    Payers payers;
    std::vector<int> waiters;
  };

  bool exists(int rank, uint32_t signal);  // or complains
  State& state(int rank, uint32_t signal) {
    return states_[static_cast<size_t>(rank) * core_.spec.num_signals + signal];
  }

  SimCore& core_;
  SimMemory& memory_;
  std::vector<State> states_;
};

}  // namespace mk::sim

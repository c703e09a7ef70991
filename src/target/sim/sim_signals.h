// SPDX-License-Identifier: MIT
// target/sim/sim_signals.h — the signals of all ranks.
//
// A wait acquires no more than it asked for: the payments up to the value it wanted, even if more have
// arrived.  That is the least a real memory system gives.  Of a stamped signal it acquires the stamp that it sees.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/rules.h"
#include "core/signal.h"
#include "target/sim/sim_core.h"
#include "target/sim/sim_memory.h"

namespace mk::sim {

class SimSignals {
 public:
  SimSignals(SimCore& core, SimMemory& memory);

  bool wait(Worker& worker, uint32_t signal, uint64_t wanted, int64_t subject) {
    if (!exists(worker.rank, signal)) return false;
    State& s = state(worker.rank, signal);
    s.awaited = std::max<uint64_t>(s.awaited, std::min(wanted, kMostValue));
    const bool seen = core_.wait_until(
        worker, [&] { return s.value >= wanted; }, [&](Worker& waiter) { enter(s, waiter); },
        [&] { return in_words(signal, wanted, s.value); }, subject);
    if (seen && !payments_.empty()) acquire(worker, signal, wanted);
    return seen;
  }

  // The same for some of what a launch pays: what is left over at the end is no complaint.
  bool wait_some(Worker& worker, uint32_t signal, uint64_t wanted, int64_t subject) {
    if (!exists(worker.rank, signal)) return false;
    state(worker.rank, signal).is_partial = true;
    return wait(worker, signal, wanted, subject);
  }

  bool wait_stamp(Worker& worker, uint32_t signal, uint64_t stamp, int64_t subject);

  // Stamps now, as pay pays.
  void stamp(const Signal& signal, uint64_t stamp, const ClockSnapshot& clock, int by);

  // Pays now; waiters see it a latency later.  `put_by` is the rank whose put pays, -1 for an add.
  void pay(const Signal& signal, uint64_t amount, const ClockSnapshot& clock, int put_by = -1);

  // Complains about the first signal that was not paid exactly what was awaited.
  void check_balance();

  // Where a payment will look first.
  const void* touched_by(const Signal& signal) const {
    return signal.index < core_.spec.num_signals ? &states_[index(signal.rank, signal.index)] : nullptr;
  }

 private:
  static constexpr int kValueBits = 17;
  static constexpr int kWaiterBits = 19;
  static constexpr int kPayerBits = 10;
  static constexpr uint64_t kMostValue = (uint64_t{1} << kValueBits) - 1;  // thousands of launches
  static constexpr uint64_t kNobody = 0;
  static constexpr uint64_t kAdds = 1;
  static constexpr uint64_t kPuts = 2;

  struct Payment {
    uint64_t total;       // the value after it
    ClockSnapshot clock;  // of it and of all before, so that a wait acquires one
  };
  // Eight bytes: a large world has tens of millions.
  struct State {
    uint64_t value : kValueBits = 0;
    uint64_t awaited : kValueBits = 0;
    uint64_t waiter : kWaiterBits = 0;      // Waiters::last + 1
    uint64_t payer : kPayerBits = kNobody;  // or kAdds, or kPuts + the node of the rank whose puts pay
    uint64_t is_partial : 1 = 0;            // somebody awaits some of it
  };
  static_assert(sizeof(State) == sizeof(uint64_t));

  // Few signals are stamped: they are kept apart.
  struct Stamped {
    uint64_t value = 0;
    int payer = -1;
    Waiters waiters;
    ClockSnapshot clock;  // of the stamp it holds, with data
  };

  bool exists(int rank, uint32_t signal) {  // or complains
    if (signal < core_.spec.num_signals) return true;
    complain_missing(rank, signal);
    return false;
  }
  size_t index(int rank, uint32_t signal) const { return static_cast<size_t>(rank) * core_.spec.num_signals + signal; }
  State& state(int rank, uint32_t signal) { return states_[index(rank, signal)]; }
  void enter(State& state, Worker& worker) {
    Waiters waiters = waiters_of(state);
    core_.enter(waiters, worker);
    state.waiter = static_cast<uint64_t>(waiters.last + 1);
  }
  static Waiters waiters_of(const State& state) { return {static_cast<int>(state.waiter) - 1}; }

  void acquire(const Worker& worker, uint32_t signal, uint64_t wanted);
  std::string in_words(uint32_t signal, uint64_t wanted, uint64_t value) const;
  void complain_missing(int rank, uint32_t signal);
  std::string broken_payer_rule(const Signal& signal, uint64_t before, int put_by) const;

  SimCore& core_;
  SimMemory& memory_;
  std::vector<State> states_;                    // [rank][signal]
  std::vector<std::vector<Payment>> payments_;   // likewise, with data
  std::unordered_map<size_t, Stamped> stamped_;  // by index
};

}  // namespace mk::sim

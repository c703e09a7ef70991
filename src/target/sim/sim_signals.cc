// SPDX-License-Identifier: MIT
// target/sim/sim_signals.cc — see sim_signals.h.
#include "target/sim/sim_signals.h"

#include <fmt/format.h>

#include <algorithm>

namespace mk::sim {

SimSignals::SimSignals(SimCore& core, SimMemory& memory)
    : core_(core), memory_(memory), states_(static_cast<size_t>(core.spec.world.size()) * core.spec.num_signals) {}

bool SimSignals::wait(Worker& worker, uint32_t signal, uint64_t wanted, int64_t subject) {
  if (!exists(worker.rank, signal)) return false;
  State& s = state(worker.rank, signal);
  s.awaited = std::max(s.awaited, wanted);
  const bool seen = core_.wait_until(
      worker, s.waiters, [&] { return s.value >= wanted; },
      [&] { return fmt::format("{} to reach {} (it holds {})", core_.spec.signal_name(signal), wanted, s.value); },
      subject);
  if (!seen) return false;
  uint64_t acquired = 0;
  for (const Payment& payment : s.payments) {
    if (acquired >= wanted) break;
    memory_.acquire(worker, payment.clock);
    acquired = payment.total;
  }
  return true;
}

void SimSignals::pay(const Signal& signal, uint64_t amount, const ClockSnapshot& clock, int put_by) {
  if (!exists(signal.rank, signal.index)) return;
  State& s = state(signal.rank, signal.index);
  const std::string broken = put_by < 0 ? s.payers.pay_by_add(signal) : s.payers.pay_by_put(put_by, signal);
  if (!broken.empty()) return core_.complain("rule", broken);
  s.value += amount;
  if (clock != nullptr) s.payments.push_back({s.value, clock});
  core_.wake(s.waiters, core_.spec.costs.signal_latency / 2);
}

bool SimSignals::exists(int rank, uint32_t signal) {
  if (signal < core_.spec.num_signals) return true;
  core_.complain("rule", fmt::format("rank {} has no signal {}", rank, signal));
  return false;
}

void SimSignals::check_balance() {
  for (size_t i = 0; i < states_.size(); ++i) {
    const State& s = states_[i];
    if (s.value == s.awaited) continue;
    core_.complain("balance", fmt::format("at the end {} of rank {} holds {}, but {} was awaited",
                                          core_.spec.signal_name(static_cast<uint32_t>(i % core_.spec.num_signals)),
                                          i / core_.spec.num_signals, s.value, s.awaited));
    return;
  }
}

}  // namespace mk::sim

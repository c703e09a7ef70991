// SPDX-License-Identifier: MIT
// target/sim/sim_signals.cc — see sim_signals.h.
#include "target/sim/sim_signals.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "core/stamp.h"

namespace mk::sim {
namespace {

// Payments hit signals all over the place: with small pages each would miss the TLB.  Only advice.
void use_huge_pages(void* memory, size_t bytes) {
  constexpr uintptr_t kHugePage = uintptr_t{1} << 21;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(memory) + kHugePage - 1) & ~(kHugePage - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + bytes) & ~(kHugePage - 1);
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

ClockSnapshot joined(const ClockSnapshot& before, const ClockSnapshot& more) {
  auto all = std::make_shared<Clock>(*before);
  all->join(*more);
  return all;
}

}  // namespace

SimSignals::SimSignals(SimCore& core, SimMemory& memory) : core_(core), memory_(memory) {
  const WorldShape& world = core.spec.world;
  check_arg(core.workers.size() < (size_t{1} << kWaiterBits), "the world has {} workers; at most {} are simulated",
            core.workers.size(), (1 << kWaiterBits) - 1);
  check_arg(world.nodes <= (1 << kPayerBits) - static_cast<int>(kPuts),
            "the world has {} nodes; at most {} are simulated", world.nodes,
            (1 << kPayerBits) - static_cast<int>(kPuts));
  const size_t count = static_cast<size_t>(world.size()) * core.spec.num_signals;
  states_.reserve(count);
  use_huge_pages(states_.data(), count * sizeof(State));
  states_.resize(count);
  if (core.spec.with_data) payments_.resize(count);
}

void SimSignals::acquire(const Worker& worker, uint32_t signal, uint64_t wanted) {
  if (wanted == 0) return;
  const std::vector<Payment>& payments = payments_[index(worker.rank, signal)];
  const auto last = std::ranges::lower_bound(payments, wanted, {}, &Payment::total);
  if (last != payments.end()) memory_.acquire(worker, last->clock);
}

void SimSignals::pay(const Signal& signal, uint64_t amount, const ClockSnapshot& clock, int put_by) {
  if (!exists(signal.rank, signal.index)) return;
  State& s = state(signal.rank, signal.index);
  if (!stamped_.empty() && stamped_.contains(index(signal.rank, signal.index))) {
    return core_.complain("rule",
                          fmt::format("signal {} of rank {} is stamped and added to", signal.index, signal.rank));
  }
  // A put stays on its rail, so that its node tells who sent it.
  const uint64_t payer = put_by < 0 ? kAdds : kPuts + static_cast<uint64_t>(core_.spec.world.node_of(put_by));
  if (s.payer != payer && s.payer != kNobody) {
    return core_.complain("rule", broken_payer_rule(signal, s.payer, put_by));
  }
  s.payer = payer;
  if (amount > kMostValue - s.value) {
    return core_.complain(
        "rule", fmt::format("signal {} of rank {} is paid more than {}", signal.index, signal.rank, kMostValue));
  }
  s.value += amount;
  if (clock != nullptr) {
    std::vector<Payment>& payments = payments_[index(signal.rank, signal.index)];
    payments.push_back({uint64_t{s.value}, payments.empty() ? clock : joined(payments.back().clock, clock)});
  }
  Waiters waiters = waiters_of(s);
  s.waiter = 0;
  core_.wake(waiters, core_.spec.costs.signal_latency / 2);
}

bool SimSignals::wait_stamp(Worker& worker, uint32_t signal, uint64_t stamp, int64_t subject) {
  if (!exists(worker.rank, signal)) return false;
  Stamped& s = stamped_[index(worker.rank, signal)];
  const bool seen = core_.wait_until(
      worker, [&] { return s.value >= stamp; }, [&](Worker& waiter) { core_.enter(s.waiters, waiter); },
      [&] {
        return fmt::format("{} to be stamped {} of launch {} (it holds {} of {})", core_.spec.names.signal(signal),
                           low_in(stamp), epoch_in(stamp), low_in(s.value), epoch_in(s.value));
      },
      subject);
  if (seen) memory_.acquire(worker, s.clock);
  return seen;
}

void SimSignals::stamp(const Signal& signal, uint64_t stamp, const ClockSnapshot& clock, int by) {
  if (!exists(signal.rank, signal.index)) return;
  Stamped& s = stamped_[index(signal.rank, signal.index)];
  if (state(signal.rank, signal.index).payer != kNobody) {
    return core_.complain("rule",
                          fmt::format("signal {} of rank {} is stamped and added to", signal.index, signal.rank));
  }
  if (s.payer >= 0 && s.payer != by) {
    return core_.complain(
        "rule", fmt::format("ranks {} and {} both stamp signal {} of rank {}", s.payer, by, signal.index, signal.rank));
  }
  s.payer = by;
  if (stamp <= s.value) return;  // it was overtaken
  s.value = stamp;
  s.clock = clock;
  core_.wake(s.waiters, core_.spec.costs.signal_latency / 2);
}

std::string SimSignals::broken_payer_rule(const Signal& signal, uint64_t before, int put_by) const {
  const WorldShape& world = core_.spec.world;
  Payers payers;
  if (before == kAdds) {
    payers.pay_by_add(signal);
  } else {
    payers.pay_by_put(world.rank_at(static_cast<int>(before - kPuts), world.local_of(signal.rank)), signal);
  }
  return put_by < 0 ? payers.pay_by_add(signal) : payers.pay_by_put(put_by, signal);
}

std::string SimSignals::in_words(uint32_t signal, uint64_t wanted, uint64_t value) const {
  return fmt::format("{} to reach {} (it holds {})", core_.spec.names.signal(signal), wanted, value);
}

void SimSignals::complain_missing(int rank, uint32_t signal) {
  core_.complain("rule", fmt::format("rank {} has no signal {}", rank, signal));
}

void SimSignals::check_balance() {
  for (size_t i = 0; i < states_.size(); ++i) {
    const State& s = states_[i];
    if (s.value == s.awaited || (s.is_partial && s.awaited < s.value)) continue;
    core_.complain("balance", fmt::format("at the end {} of rank {} holds {}, but {} was awaited",
                                          core_.spec.names.signal(static_cast<uint32_t>(i % core_.spec.num_signals)),
                                          i / core_.spec.num_signals, uint64_t{s.value}, uint64_t{s.awaited}));
    return;
  }
}

}  // namespace mk::sim

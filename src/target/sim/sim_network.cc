// SPDX-License-Identifier: MIT
// target/sim/sim_network.cc — see sim_network.h.
#include "target/sim/sim_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "target/sim/plain_atomics.h"

namespace mk::sim {
namespace {

constexpr int kMostInFlight = 64;
constexpr Time kStall = 20 * kMicrosecond;

}  // namespace

SimNetwork::SimNetwork(SimCore& core, SimMemory& memory, SimSignals& signals)
    : core_(core),
      memory_(memory),
      signals_(signals),
      window_ids_(kFirstOperatorWindow + core.spec.window_bytes.size()) {
  std::iota(window_ids_.begin(), window_ids_.end(), 0u);
  if (core.spec.world.nodes == 1) return;
  ends_.resize(core.spec.world.size());
  for (size_t rank = 0; rank < ends_.size(); ++rank) {
    ends_[rank].slots.resize(core.spec.ring_capacity);
    ends_[rank].origins.resize(core.spec.ring_capacity);
    ends_[rank].completed_clock = memory.make_clock();
  }
}

void SimNetwork::open() {
  for (size_t rank = 0; rank < ends_.size(); ++rank) {
    ends_[rank].proxy = core_.scheduler.spawn([this, rank] { run_proxy(static_cast<int>(rank)); });
  }
}

RingView SimNetwork::ring(int rank) {
  if (ends_.empty()) return {};
  End& end = ends_[rank];
  return {end.slots.data(), &end.claimed, &end.consumed, &end.completed, core_.spec.ring_capacity};
}

bool SimNetwork::put(Worker& worker, const RingView& ring, const Put& put, int64_t subject, uint64_t& position) {
  if (const std::string broken = broken_put_rule(core_.spec.world, worker.rank, put); !broken.empty()) {
    core_.complain("rule", broken);
    return false;
  }
  End& end = ends_[worker.rank];
  const RingProducer<PlainAtomics> producer{ring};
  const uint64_t claimed = producer.claim();
  const bool free = core_.wait_until(
      worker, [&] { return producer.is_free(claimed); }, [&](Worker& waiter) { core_.enter(end.waiters, waiter); },
      [] { return std::string("room in the command ring"); }, subject);
  if (!free) return false;
  const WindowTable windows{nullptr, window_ids_.data(), core_.spec.world.ranks};
  end.origins[claimed & (ring.capacity - 1)] = {memory_.release(worker), worker.epoch, subject};
  producer.publish(claimed, to_command(put, windows));
  if (std::exchange(end.proxy_parked, false)) {
    core_.scheduler.unpark(end.proxy, core_.disturbance.vary(core_.spec.costs.proxy_wake));
  }
  position = claimed;
  return true;
}

bool SimNetwork::settle(Worker& worker, uint64_t completed) {
  if (completed == 0) return !core_.stopped();
  End& end = ends_[worker.rank];
  const bool settled = core_.wait_until(
      worker, [&] { return end.completed >= completed; }, [&](Worker& waiter) { core_.enter(end.waiters, waiter); },
      [&] { return fmt::format("{} puts to complete ({} have)", completed, end.completed); }, -1);
  if (settled) memory_.acquire(worker, end.completed_clock);
  return settled;
}

void SimNetwork::close() {
  closed_ = true;
  for (End& end : ends_) {
    if (std::exchange(end.proxy_parked, false)) core_.scheduler.unpark(end.proxy, 0);
  }
}

void SimNetwork::run_proxy(int rank) {
  End& end = ends_[rank];
  RingConsumer<PlainAtomics> consumer(ring(rank));
  std::optional<Time> full_since;
  const Costs& costs = core_.spec.costs;
  while (!closed_ && !core_.stopped()) {
    const Command* command = consumer.peek();
    if (command == nullptr) {
      end.proxy_parked = true;
      core_.scheduler.park();
      continue;
    }
    if (core_.disturbance.happens_one_in(16)) core_.scheduler.sleep(core_.disturbance.vary(kStall));
    core_.scheduler.sleep(core_.disturbance.vary(full_since ? next_look(*full_since) : costs.proxy_per_command));
    if (end.in_flight >= kMostInFlight || core_.disturbance.happens_one_in(16)) {  // the fabric is full
      if (!full_since) full_since = core_.scheduler.now();
      continue;
    }
    full_since.reset();
    const uint64_t ticket = consumer.position();
    start(rank, *command, ticket, end.origins[ticket & (core_.spec.ring_capacity - 1)]);
    consumer.pop();
    core_.wake(end.waiters, core_.spec.costs.proxy_wake);
  }
}

// A proxy looks again after the time of a command.  Where that takes thousands of looks, for a slow network or
// a quick proxy, it is a thousandth late instead, so that a run ends whatever the rates.
Time SimNetwork::next_look(Time full_since) const {
  const Time usual = core_.spec.costs.proxy_per_command;
  if (core_.disturbance.on()) return usual;
  return std::max({usual, kNanosecond, (core_.scheduler.now() - full_since) / 1024});
}

void SimNetwork::start(int rank, const Command& command, uint64_t ticket, const Origin& origin) {
  const Costs& costs = core_.spec.costs;
  End& end = ends_[rank];
  const Time now = core_.scheduler.now();
  const Time duration = core_.disturbance.vary(Costs::transfer(command.bytes, costs.nic_gb_s));
  const Time left =
      std::max(occupy(end.out, ends_[command.to_rank].in, now, duration), core_.move_put(rank, command.bytes));
  ++end.in_flight;
  end.bytes += command.bytes;
  const Time latency = core_.disturbance.vary(costs.nic_latency);
  if (core_.disturbance.happens_one_in(3)) {
    core_.scheduler.call_after(left - now,
                               [this, rank, command, ticket, origin] { take_along(rank, command, ticket, origin); });
    return;
  }
  core_.scheduler.call_after(left - now + latency,
                             [this, rank, command, ticket, origin] { land(rank, command, ticket, origin); });
}

// The put's bytes are copied now, so that it may complete before it lands, as over tcp.
void SimNetwork::take_along(int rank, const Command& command, uint64_t ticket, const Origin& origin) {
  if (core_.stopped()) return;
  const Time latency = core_.spec.costs.nic_latency;
  auto taken = std::make_shared<Taken>();
  if (origin.clock != nullptr) {
    taken->put = memory_.start_put(rank, ticket, *origin.clock);
    taken->bytes = memory_.take({taken->put.thread, &taken->put.clock, origin.epoch, origin.subject},
                                Place{command.from_window, rank, command.from_offset}, command.bytes);
  }
  core_.scheduler.call_after(core_.disturbance.vary(latency),
                             [this, rank, ticket, taken] { complete(rank, ticket, taken->put.clock); });
  core_.scheduler.call_after(core_.disturbance.vary(2 * latency), [this, rank, command, origin, taken] {
    if (core_.stopped()) return;
    if (origin.clock != nullptr) {
      memory_.bring({taken->put.thread, &taken->put.clock, origin.epoch, origin.subject},
                    Place{command.to_window, static_cast<int>(command.to_rank), command.to_offset}, taken->bytes);
    }
    pay(rank, command, origin.clock == nullptr ? nullptr : std::make_shared<const Clock>(taken->put.clock));
  });
}

void SimNetwork::land(int rank, const Command& command, uint64_t ticket, const Origin& origin) {
  if (core_.stopped()) return;
  const int to = static_cast<int>(command.to_rank);
  PutClock put;
  if (origin.clock != nullptr) {
    put = memory_.start_put(rank, ticket, *origin.clock);
    const Actor actor{put.thread, &put.clock, origin.epoch, origin.subject};
    memory_.copy(actor, Place{command.to_window, to, command.to_offset},
                 Place{command.from_window, rank, command.from_offset}, command.bytes);
  }
  pay(rank, command, origin.clock == nullptr ? nullptr : std::make_shared<const Clock>(put.clock));
  core_.scheduler.call_after(core_.disturbance.vary(core_.spec.costs.nic_latency),
                             [this, rank, ticket, clock = std::move(put.clock)] { complete(rank, ticket, clock); });
}

void SimNetwork::pay(int rank, const Command& command, const ClockSnapshot& with) {
  const Signal signal{static_cast<int>(command.to_rank), command.signal_index};
  if (command.stamp != 0) {
    signals_.stamp(signal, command.stamp, with, rank);
  } else {
    signals_.pay(signal, command.amount, with, rank);
  }
}

void SimNetwork::complete(int rank, uint64_t ticket, const Clock& clock) {
  End& end = ends_[rank];
  --end.in_flight;
  end.completed_clock.join(clock);
  const size_t index = ticket - end.completed;
  if (end.done.size() <= index) end.done.resize(index + 1);
  end.done[index] = true;
  while (!end.done.empty() && end.done.front()) {
    end.done.pop_front();
    ++end.completed;
  }
  core_.wake(end.waiters, core_.spec.costs.proxy_wake);
}

}  // namespace mk::sim

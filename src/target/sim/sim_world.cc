// SPDX-License-Identifier: MIT
// target/sim/sim_world.cc — see sim_world.h.
#include "target/sim/sim_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace mk::sim {

SimWorld::SimWorld(const SimSpec& spec)
    : core_(spec),
      memory_(core_),
      signals_(core_, memory_),
      network_(core_, memory_, signals_),
      ranks_(spec.world.size()) {
  for (Rank& rank : ranks_) rank.clock = memory_.make_clock();
}

void SimWorld::run(int launches, std::function<void(Worker&)> body) {
  body_ = std::move(body);
  launches_ = launches;
  unfinished_ = static_cast<int>(ranks_.size());
  network_.open();
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    core_.scheduler.call_after(core_.disturbance.vary(core_.spec.costs.launch), [this, rank] { launch(rank); });
  }
  core_.scheduler.run();
  if (!core_.stopped() && unfinished_ > 0) report_stuck();
  if (!core_.stopped()) signals_.check_balance();
  network_.close();
  core_.scheduler.run();  // whoever was stuck leaves, and the proxies
}

void SimWorld::launch(int rank) {
  if (core_.stopped()) return;
  ++ranks_[rank].launched;
  for (int index = 0; index < core_.workers_per_rank; ++index) {
    Worker& worker = core_.worker(rank, index);
    worker.epoch = ranks_[rank].launched;
    memory_.acquire(worker, ranks_[rank].clock);
    const auto work = [this, &worker] {
      body_(worker);
      if (!core_.spec.with_data) land_stores(worker);
      leave(worker);
    };
    worker.fibre = core_.scheduler.spawn(work, &worker);
  }
}

void SimWorld::leave(Worker& worker) {
  Rank& rank = ranks_[worker.rank];
  if (const ClockSnapshot clock = memory_.release(worker)) rank.clock.join(*clock);
  if (core_.stopped() || ++rank.exits % core_.workers_per_rank != 0) return;
  ended_ = std::max(ended_, core_.scheduler.now());
  if (rank.launched == launches_) {
    --unfinished_;
    return;
  }
  core_.scheduler.call_after(core_.disturbance.vary(core_.spec.costs.launch),
                             [this, number = worker.rank] { launch(number); });
}

void SimWorld::copy(Worker& worker, const Place& to, const Place& from, uint64_t bytes, int64_t subject) {
  if (const std::string broken = broken_copy_rule(core_.spec.world, worker.rank, to, from); !broken.empty()) {
    return core_.complain("rule", broken);
  }
  finish_loads(worker);
  const Costs& costs = core_.spec.costs;
  const Time now = core_.scheduler.now();
  Time cost = core_.move(worker, now, 2 * bytes) - now;
  int peer = SimCore::kNoPeer;
  if (to.rank != from.rank) {
    const Time left = occupy(ranks_[from.rank].out, ranks_[to.rank].in, now, Costs::transfer(bytes, costs.nvlink_gb_s));
    cost = std::max(cost, left - now);
    ranks_[worker.rank].nvlink_bytes += bytes;
    peer = to.rank;
  }
  core_.spend(worker, SpanKind::kCopy, cost, subject, peer);
  memory_.copy(memory_.actor(worker, subject), to, from, bytes);
}

// A worker that computes stores with hands of its own.
Time SimWorld::stored_in(const Worker& worker, uint64_t bytes) {
  const bool shares = worker.sm != Worker::kNoSm && worker.post.role != core_.spec.roles.compute_role();
  const Time now = core_.scheduler.now();
  return shares ? core_.move(worker, now, bytes) - now : Costs::transfer(bytes, core_.spec.costs.copy_gb_s);
}

void SimWorld::store(Worker& worker, const Place& to, uint64_t bytes, int64_t subject) {
  if (const std::string broken = broken_store_rule(core_.spec.world, worker.rank, to); !broken.empty()) {
    return core_.complain("rule", broken);
  }
  land_stores(worker);
  const Costs& costs = core_.spec.costs;
  const Time now = core_.scheduler.now();
  Time cost = stored_in(worker, bytes);
  if (to.rank != worker.rank) {
    const Time duration = Costs::transfer(bytes, costs.nvlink_gb_s);
    cost = std::max(cost, occupy(ranks_[worker.rank].out, ranks_[to.rank].in, now, duration) - now);
    ranks_[worker.rank].nvlink_bytes += bytes;
  }
  worker.stores_land = later_by(now, core_.disturbance.vary(cost));
  memory_.write(memory_.actor(worker, subject), to, bytes);
  if (core_.spec.traced) {
    core_.spans.push_back({worker.number, SpanKind::kStore, now, worker.stores_land, subject, worker.epoch,
                           fmt::format("to rank {}", to.rank)});
  }
}

void SimWorld::load(Worker& worker, const Place& from, uint64_t bytes, int64_t subject) {
  if (const std::string broken = broken_load_rule(core_.spec.world, worker.rank, from); !broken.empty()) {
    return core_.complain("rule", broken);
  }
  memory_.read(memory_.actor(worker, subject), from, bytes);
  if (worker.post.role == core_.spec.roles.compute_role()) {  // a tile's cost has its time
    if (from.rank != worker.rank) ranks_[worker.rank].nvlink_bytes += bytes;
    return;
  }
  const Time start = std::max(core_.scheduler.now(), worker.loaded);
  Time done = core_.move(worker, start, bytes);
  int peer = SimCore::kNoPeer;
  if (from.rank != worker.rank) {
    const Time duration = Costs::transfer(bytes, core_.spec.costs.nvlink_gb_s);
    const Time now = core_.scheduler.now();
    done = std::max(done, occupy(ranks_[from.rank].out, ranks_[worker.rank].in, now, duration));
    ranks_[worker.rank].nvlink_bytes += bytes;
    peer = from.rank;
  }
  if (core_.spec.with_data) return core_.spend(worker, SpanKind::kLoad, done - start, subject, peer);
  worker.loaded = done;
  if (core_.spec.traced) core_.trace_work(worker, SpanKind::kLoad, start, done, subject, peer);
}

void SimWorld::add(Worker& worker, const Signal& signal, uint64_t amount) {
  if (const std::string broken = broken_add_rule(core_.spec.world, worker.rank, signal); !broken.empty()) {
    return core_.complain("rule", broken);
  }
  const Time now = core_.scheduler.now();
  const Time landing = free_at(worker) - now;
  const auto pay = [this, signal, amount, clock = memory_.release(worker)] {
    if (!core_.stopped()) signals_.pay(signal, amount, clock);
  };
  core_.scheduler.call_after(landing + core_.disturbance.vary(core_.spec.costs.nvlink_latency), pay,
                             signals_.touched_by(signal));
}

void SimWorld::stamp(Worker& worker, const Signal& signal, uint64_t stamp) {
  if (const std::string broken = broken_add_rule(core_.spec.world, worker.rank, signal); !broken.empty()) {
    return core_.complain("rule", broken);
  }
  const Time now = core_.scheduler.now();
  const Time landing = free_at(worker) - now;
  const auto pay = [this, signal, stamp, by = worker.rank, clock = memory_.release(worker)] {
    if (!core_.stopped()) signals_.stamp(signal, stamp, clock, by);
  };
  core_.scheduler.call_after(landing + core_.disturbance.vary(core_.spec.costs.nvlink_latency), pay,
                             signals_.touched_by(signal));
}

uint32_t SimWorld::read(Worker& worker, const Place& from, int64_t subject) {
  if (const std::string broken = broken_read_rule(core_.spec.world, worker.rank, from); !broken.empty()) {
    core_.complain("rule", broken);
    return 0;
  }
  count_value(worker, from);
  if (!core_.spec.with_data) return core_.spec.value(worker.epoch, from);
  memory_.read(memory_.actor(worker, subject), from, sizeof(uint32_t));
  if (core_.stopped()) return 0;
  uint32_t value = 0;
  std::memcpy(&value, memory_.at(from, worker.epoch), sizeof(value));
  return value;
}

void SimWorld::write(Worker& worker, const Place& to, uint32_t value, int64_t subject) {
  if (const std::string broken = broken_write_rule(core_.spec.world, worker.rank, to); !broken.empty()) {
    return core_.complain("rule", broken);
  }
  count_value(worker, to);
  memory_.write(memory_.actor(worker, subject), to, sizeof(value));
  if (core_.spec.with_data && !core_.stopped()) std::memcpy(memory_.at(to, worker.epoch), &value, sizeof(value));
}

void SimWorld::count_value(Worker& worker, const Place& place) {
  if (place.rank != worker.rank) ranks_[worker.rank].nvlink_bytes += sizeof(uint32_t);
}

void SimWorld::report_stuck() {
  std::string account;
  int stuck = 0;
  constexpr int kMostNamed = 24;
  for (const Worker& worker : core_.workers) {
    if (!worker.parked) continue;
    if (++stuck > kMostNamed) continue;
    account += fmt::format("\n  {} waits for {}", core_.whereabouts(worker, worker.epoch, worker.subject),
                           SimCore::awaited_by(worker));
  }
  if (stuck > kMostNamed) account += fmt::format("\n  and {} more", stuck - kMostNamed);
  core_.complain("deadlock", fmt::format("nobody can go on; {} workers wait:{}", stuck, account));
}

}  // namespace mk::sim

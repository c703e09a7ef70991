// SPDX-License-Identifier: MIT
// target/sim/sim_core.cc — see sim_core.h.
#include "target/sim/sim_core.h"

#include <fmt/format.h>

#include <utility>

namespace mk::sim {

SimCore::SimCore(const SimSpec& given)
    : spec(given),
      random(given.seed),
      disturbance(given.disturbance, random),
      scheduler(random, given.with_data ? Scheduler::Stacks::kGuarded : Scheduler::Stacks::kPlain) {
  const int per_rank = spec.roles.total();
  workers.resize(static_cast<size_t>(spec.world.size()) * per_rank);
  for (size_t i = 0; i < workers.size(); ++i) {
    workers[i].number = static_cast<int>(i);
    workers[i].rank = static_cast<int>(i) / per_rank;
    workers[i].post = spec.roles.post_of(static_cast<int>(i) % per_rank);
  }
}

void SimCore::complain(const std::string& kind, const std::string& text) {
  complaints_.push_back({kind, text});
  for (Worker& worker : workers) {
    if (!std::exchange(worker.parked, false)) continue;
    scheduler.unpark(worker.fibre, 0);
  }
}

void SimCore::wake_all(Waiters& waiters, Time delay) {
  // The list has the last one first.
  int first = Worker::kNoWorker;
  for (int number = std::exchange(waiters.last, Worker::kNoWorker); number != Worker::kNoWorker;) {
    const int before = std::exchange(workers[number].next_waiter, first);
    first = std::exchange(number, before);
  }
  while (first != Worker::kNoWorker) {
    Worker& worker = workers[first];
    first = std::exchange(worker.next_waiter, Worker::kNoWorker);
    if (std::exchange(worker.parked, false)) scheduler.unpark(worker.fibre, disturbance.vary(delay));
  }
}

std::string SimCore::awaited_by(const Worker& worker) {
  return worker.awaiting.empty() ? "a signal" : worker.awaiting;  // empty without data
}

void SimCore::trace_wait(const Worker& worker, Time began, int64_t subject) {
  spans.push_back({worker.number, SpanKind::kWait, began, scheduler.now(), subject, worker.epoch, awaited_by(worker)});
}

void SimCore::trace_work(const Worker& worker, SpanKind kind, Time began, int64_t subject, int peer) {
  std::string detail;
  if (peer != kNoPeer) detail = fmt::format("{} rank {}", kind == SpanKind::kLoad ? "from" : "to", peer);
  spans.push_back({worker.number, kind, began, scheduler.now(), subject, worker.epoch, std::move(detail)});
}

std::string SimCore::name_of(const Worker& worker) const {
  return fmt::format("rank {} {} {}", worker.rank, spec.names.role(worker.post.role), worker.post.index);
}

std::string SimCore::whereabouts(const Worker& worker, uint64_t epoch, int64_t subject) const {
  std::string text = fmt::format("{}, launch {}", name_of(worker), epoch);
  if (subject >= 0) text += fmt::format(", {} {}", spec.names.subject(worker.post.role), subject);
  return text;
}

}  // namespace mk::sim

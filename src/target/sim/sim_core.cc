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

bool SimCore::wait_until(Worker& worker, std::vector<int>& waiters, const std::function<bool()>& ready,
                         const std::function<std::string()>& in_words, int64_t subject) {
  if (stopped()) return false;
  if (ready()) return true;
  const Time began = scheduler.now();
  worker.subject = subject;
  while (!ready() && !stopped()) {
    worker.awaiting = spec.with_data ? in_words() : "a signal";
    waiters.push_back(worker.number);
    worker.parked = true;
    scheduler.park();
  }
  worker.waiting += scheduler.now() - began;
  if (spec.traced) {
    spans.push_back({worker.number, SpanKind::kWait, began, scheduler.now(), subject, worker.epoch, worker.awaiting});
  }
  worker.awaiting.clear();
  return !stopped();
}

void SimCore::wake(std::vector<int>& waiters, Time delay) {
  for (const int number : waiters) {
    Worker& worker = workers[number];
    if (std::exchange(worker.parked, false)) scheduler.unpark(worker.fibre, disturbance.vary(delay));
  }
  waiters.clear();
}

void SimCore::spend(Worker& worker, SpanKind kind, Time cost, int64_t subject, std::string detail) {
  const Time began = scheduler.now();
  scheduler.sleep(disturbance.vary(cost));
  worker.busy += scheduler.now() - began;
  if (spec.traced) {
    spans.push_back({worker.number, kind, began, scheduler.now(), subject, worker.epoch, std::move(detail)});
  }
}

std::string SimCore::name_of(const Worker& worker) {
  return fmt::format("rank {} {} {}", worker.rank, mk::name_of(worker.post.role), worker.post.index);
}

std::string SimCore::whereabouts(const Worker& worker, uint64_t epoch, int64_t subject) {
  std::string text = fmt::format("{}, launch {}", name_of(worker), epoch);
  if (subject >= 0) text += fmt::format(", {} {}", subject_of(worker.post.role), subject);
  return text;
}

}  // namespace mk::sim

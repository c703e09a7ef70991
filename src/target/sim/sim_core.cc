// SPDX-License-Identifier: MIT
// target/sim/sim_core.cc — see sim_core.h.
#include "target/sim/sim_core.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/math.h"

namespace mk::sim {

SimCore::SimCore(const SimSpec& given)
    : spec(given),
      random(given.seed),
      disturbance(given.disturbance, random),
      scheduler(random, given.with_data ? Scheduler::Stacks::kGuarded : Scheduler::Stacks::kPlain) {
  check_arg(!spec.separate_jobs || spec.workers_per_sm == 1, "workers that share SMs are simulated without jobs");
  const Roster& roles = spec.roles;
  workers_per_rank = roles.total() + (spec.separate_jobs ? 2 * roles.num_compute() : 0);
  workers.resize(static_cast<size_t>(spec.world.size()) * workers_per_rank);
  size_t next = 0;
  const auto add = [&](int rank, const Post& post, Job job) {
    Worker& worker = workers[next];
    worker.number = static_cast<int>(next++);
    worker.rank = rank;
    worker.post = post;
    worker.job = job;
  };
  for (int rank = 0; rank < spec.world.size(); ++rank) {
    for (int number = 0; number < roles.total(); ++number) {
      const Post post = roles.post_of(number);
      if (!spec.separate_jobs || post.role != roles.compute_role()) {
        add(rank, post, Job::kAll);
        continue;
      }
      for (const Job job : {Job::kLoad, Job::kMaths, Job::kStore}) add(rank, post, job);
    }
  }
  if (spec.workers_per_sm > 1) seat_workers();
}

// As target/sm90/communication_block.h seats them: those that share an SM first, then each worker that computes with
// those inside its block.  Who has an SM to itself needs no entry.
void SimCore::seat_workers() {
  const Roster& roles = spec.roles;
  const int sharing = ceil_div(roles.num_shared(), spec.workers_per_sm);
  nic_sm = sharing - 1;
  sms_per_rank = sharing + (roles.has_inside() ? roles.num_compute() : 0);
  sms.resize(static_cast<size_t>(spec.world.size()) * sms_per_rank);
  for (Worker& worker : workers) {
    const int number = worker.number - worker.rank * workers_per_rank;
    const int after = number - roles.num_outside();
    int sm = Worker::kNoSm;
    if (number < roles.num_shared()) sm = number / spec.workers_per_sm;
    if (after >= 0 && roles.has_inside()) sm = sharing + after / roles.workers_per_compute();
    if (sm == Worker::kNoSm) continue;
    worker.sm = worker.rank * sms_per_rank + sm;
    sms[worker.sm].computes = after >= 0;
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

void SimCore::trace_work(const Worker& worker, SpanKind kind, Time began, Time ended, int64_t subject, int peer) {
  std::string detail;
  if (peer != kNoPeer) detail = fmt::format("{} rank {}", kind == SpanKind::kLoad ? "from" : "to", peer);
  spans.push_back({worker.number, kind, began, ended, subject, worker.epoch, std::move(detail)});
}

std::string SimCore::name_of(const Worker& worker) const {
  constexpr const char* kJobs[] = {"", " (load)", " (maths)", " (store)"};
  return fmt::format("rank {} {} {}{}", worker.rank, spec.names.role(worker.post.role), worker.post.index,
                     kJobs[static_cast<int>(worker.job)]);
}

std::string SimCore::whereabouts(const Worker& worker, uint64_t epoch, int64_t subject) const {
  std::string text = fmt::format("{}, launch {}", name_of(worker), epoch);
  if (subject >= 0) text += fmt::format(", {} {}", spec.names.subject(worker.post.role), subject);
  return text;
}

}  // namespace mk::sim

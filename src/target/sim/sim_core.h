// SPDX-License-Identifier: MIT
// target/sim/sim_core.h — what every part of a simulated world shares: time, chance, workers, complaints.
//
// A complaint is final: it stops the world, every wait returns false, and the run ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/names.h"
#include "core/roles.h"
#include "core/window.h"
#include "core/world_shape.h"
#include "target/sim/costs.h"
#include "target/sim/random.h"
#include "target/sim/scheduler.h"

namespace mk::sim {

struct SimSpec {
  WorldShape world;
  Roster roles;
  std::vector<uint64_t> window_bytes;  // the operator's windows, from kFirstOperatorWindow on
  uint32_t num_signals = 0;
  Names names;

  // With data, windows are real memory and visibility is tracked; without, only time and bytes are
  // accounted for, so that thousands of workers fit.
  bool with_data = false;
  bool separate_jobs = false;  // each worker that computes is three: its load, maths and store job
  int load_ahead = 2;          // tiles that a load job may be ahead of the maths
  std::function<const std::byte*(int rank, uint64_t epoch, int input)> input;  // a launch's own, with data

  std::function<uint32_t(uint64_t epoch, const Place& place)> value;  // what a protocol reads, without data

  // Communication workers that share an SM, as sm90 seats them; 1: each has its own, and so have those inside.
  int workers_per_sm = 1;
  bool nic_on_sm = false;  // a warp of the last communication SM plays the NIC, as in the scale model

  Costs costs;
  Disturbance::Kind disturbance = Disturbance::Kind::kNone;
  uint32_t ring_capacity = 256;
  int put_lanes = 32;  // most puts of a rank in one launch, with data
  bool traced = false;
  uint64_t seed = 0;
};

// What a simulated worker is: a whole one, or a job of one that computes.
enum class Job : uint8_t { kAll, kLoad, kMaths, kStore };

// A worker, what it is waiting for, and where its time went.  What changes with every event is in the first
// cache line.
struct alignas(64) Worker {
  int number = 0;  // in the world
  int rank = 0;
  Time busy = 0;
  Time waiting = 0;
  Time stores_land = 0;  // when its last store is there
  Time loaded = 0;       // when its last load is, without data
  int64_t subject = -1;  // the tile or chunk in hand
  int fibre = -1;
  int next_waiter = kNoWorker;  // in the list it is parked in
  bool parked = false;
  Job job = Job::kAll;
  uint64_t epoch = 0;  // of the launch it is in, 0 before the first
  Post post;
  int sm = kNoSm;        // in the world, where it is shared
  std::string awaiting;  // in words, with data; empty when it does not wait

  static constexpr int kNoWorker = -1;
  static constexpr int kNoSm = -1;
};

// An SM that several workers share.
struct Sm {
  Link moves;        // of those that communicate
  Time missing = 0;  // to the next tile of the one that computes
  bool computes = false;
};

// Workers parked for the same thing, linked through Worker::next_waiter.
struct Waiters {
  int last = Worker::kNoWorker;
};

enum class SpanKind { kTile, kCopy, kStore, kLoad, kWait };

// A piece of a worker's time, for traces.
struct Span {
  int worker;
  SpanKind kind;
  Time begin;
  Time end;
  int64_t subject;
  uint64_t epoch;
  std::string detail;
};

struct Complaint {
  std::string kind;  // rule, visibility, deadlock, balance, result
  std::string text;
};

class SimCore {
 public:
  static constexpr int kNoPeer = -1;

  explicit SimCore(const SimSpec& spec);

  SimSpec spec;
  Random random;
  Disturbance disturbance;
  Scheduler scheduler;
  std::vector<Worker> workers;
  std::vector<Span> spans;
  std::vector<Sm> sms;  // [rank][those that are shared]

  Worker& worker(int rank, int index) { return workers[rank * workers_per_rank + index]; }
  int workers_per_rank = 0;  // jobs counted each
  int sms_per_rank = 0;      // shared ones
  int nic_sm = 0;            // of them

  void complain(const std::string& kind, const std::string& text);
  bool stopped() const { return !complaints_.empty(); }
  const std::vector<Complaint>& complaints() const { return complaints_; }

  // Parks the worker until ready(), looking again whenever those that enter(worker) has added it to are
  // woken.  False: the world stopped.
  template <class Ready, class Enter, class InWords>
  bool wait_until(Worker& worker, const Ready& ready, const Enter& enter, const InWords& in_words, int64_t subject) {
    if (stopped()) return false;
    if (ready()) return true;
    const Time began = scheduler.now();
    worker.subject = subject;
    while (!ready() && !stopped()) {
      if (spec.with_data) worker.awaiting = in_words();
      enter(worker);
      worker.parked = true;
      scheduler.park();
    }
    worker.waiting += scheduler.now() - began;
    if (spec.traced) trace_wait(worker, began, subject);
    if (spec.with_data) worker.awaiting.clear();
    return !stopped();
  }
  void enter(Waiters& waiters, Worker& worker) { worker.next_waiter = std::exchange(waiters.last, worker.number); }
  // Those who came first are woken first.
  void wake(Waiters& waiters, Time delay) {
    if (waiters.last != Worker::kNoWorker) wake_all(waiters, delay);
  }

  // The worker is busy for `cost`, varied.
  void spend(Worker& worker, SpanKind kind, Time cost, int64_t subject, int peer = kNoPeer) {
    const Time began = scheduler.now();
    scheduler.sleep(disturbance.vary(cost));
    worker.busy += scheduler.now() - began;
    if (spec.traced) trace_work(worker, kind, began, scheduler.now(), subject, peer);
  }
  void trace_work(const Worker& worker, SpanKind kind, Time began, Time ended, int64_t subject, int peer);

  // A worker reads and writes bytes through its SM from `start` on: when it has.
  Time move(const Worker& worker, Time start, uint64_t bytes) {
    const Costs& costs = spec.costs;
    if (worker.sm == Worker::kNoSm) return later_by(start, Costs::transfer(bytes, 2 * costs.copy_gb_s));
    const bool is_inside = sms[worker.sm].computes;
    const double most = is_inside ? h200::kInsideShare * costs.worker_gb_s : costs.worker_gb_s;
    return use_sm(worker, start, Costs::transfer(bytes, costs.sm_gb_s), Costs::transfer(bytes, most));
  }
  // When it has, if it has to add up what it moved before `start`.
  Time sum(const Worker& worker, Time start, uint64_t moved) {
    constexpr double kLonger = 1 / h200::kSumPace - 1;
    return move(worker, start, static_cast<uint64_t>(kLonger * static_cast<double>(moved)));
  }
  // The NIC's share of a put, where a warp plays it: when its copy is done.
  Time move_put(int rank, uint64_t bytes) {
    if (!spec.nic_on_sm || sms_per_rank == 0) return scheduler.now();
    Sm& last = sms[static_cast<size_t>(rank) * sms_per_rank + nic_sm];
    return occupy(last.moves, scheduler.now(), Costs::transfer(2 * bytes, spec.costs.sm_gb_s));
  }

  // "rank 3 compute 1", and with what it is about: ", launch 2, tile 7".
  std::string name_of(const Worker& worker) const;
  std::string whereabouts(const Worker& worker, uint64_t epoch, int64_t subject) const;
  static std::string awaited_by(const Worker& worker);

 private:
  // Occupies the worker's SM: when that is over, if it takes the worker itself at least `least`.  The SM takes it up
  // now, because what a worker has in flight is asked for ahead; a start in the future would leave the SM idle.
  Time use_sm(const Worker& worker, Time start, Time occupied, Time least) {
    Sm& sm = sms[worker.sm];
    if (!sm.computes) return std::max(later_by(start, least), occupy(sm.moves, scheduler.now(), occupied));
    sm.missing = later_by(sm.missing, occupied);
    return later_by(start, least);
  }
  void seat_workers();
  void wake_all(Waiters& waiters, Time delay);
  void trace_wait(const Worker& worker, Time began, int64_t subject);

  std::vector<Complaint> complaints_;
};

}  // namespace mk::sim

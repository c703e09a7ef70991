// SPDX-License-Identifier: MIT
// target/sim/sim_core.h — what every part of a simulated world shares: time, chance, workers, complaints.
//
// A complaint is final: it stops the world, every wait returns false, and the run ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/roles.h"
#include "core/world_shape.h"
#include "target/sim/costs.h"
#include "target/sim/random.h"
#include "target/sim/scheduler.h"

namespace mk::sim {

struct SimSpec {
  WorldShape world;
  RoleCounts roles;
  std::vector<uint64_t> window_bytes;  // the operator's windows, from kFirstOperatorWindow on
  uint32_t num_signals = 0;
  std::function<std::string(uint32_t)> signal_name;

  // With data, windows are real memory and visibility is tracked; without, only time and bytes are
  // accounted for, so that thousands of workers fit.
  bool with_data = false;
  std::function<const std::byte*(int rank, uint64_t epoch)> input;  // a launch's own, with data

  Costs costs;
  Disturbance::Kind disturbance = Disturbance::Kind::kNone;
  uint32_t ring_capacity = 256;
  int put_lanes = 32;  // most puts of a rank in one launch, with data
  bool traced = false;
  uint64_t seed = 0;
};

// A worker, what it is waiting for, and where its time went.
struct Worker {
  int number = 0;  // in the world
  int rank = 0;
  Post post;
  uint64_t epoch = 0;  // of the launch it is in, 0 before the first
  int fibre = -1;
  bool parked = false;
  std::string awaiting;  // in words, empty when it does not wait
  int64_t subject = -1;  // the tile or chunk in hand
  Time busy = 0;
  Time waiting = 0;
  Time stores_land = 0;  // when its last store is there
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
  explicit SimCore(const SimSpec& spec);

  SimSpec spec;
  Random random;
  Disturbance disturbance;
  Scheduler scheduler;
  std::vector<Worker> workers;
  std::vector<Span> spans;

  Worker& worker(int rank, int index) { return workers[rank * spec.roles.total() + index]; }

  void complain(const std::string& kind, const std::string& text);
  bool stopped() const { return !complaints_.empty(); }
  const std::vector<Complaint>& complaints() const { return complaints_; }

  // Parks the worker until ready(), looking again whenever `waiters` is woken.  False: the world stopped.
  bool wait_until(Worker& worker, std::vector<int>& waiters, const std::function<bool()>& ready,
                  const std::function<std::string()>& in_words, int64_t subject);
  void wake(std::vector<int>& waiters, Time delay);

  // The worker is busy for `cost`, varied.
  void spend(Worker& worker, SpanKind kind, Time cost, int64_t subject, std::string detail = {});

  // "rank 3 compute 1", and with what it is about: ", launch 2, tile 7".
  static std::string name_of(const Worker& worker);
  static std::string whereabouts(const Worker& worker, uint64_t epoch, int64_t subject);

 private:
  std::vector<Complaint> complaints_;
};

}  // namespace mk::sim

// SPDX-License-Identifier: MIT
// target/sim/sim_world.h — a whole world in one thread: its ranks, their launches, and the end of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/command.h"
#include "core/window.h"
#include "target/sim/sim_core.h"
#include "target/sim/sim_memory.h"
#include "target/sim/sim_network.h"
#include "target/sim/sim_signals.h"

namespace mk::sim {

class SimWorld {
 public:
  explicit SimWorld(const SimSpec& spec);

  // Runs body(worker) for every worker, `launches` times back to back on every rank.  Ends with a
  // complaint if somebody is stuck or a signal was not paid what was awaited.
  void run(int launches, std::function<void(Worker&)> body);

  // A copy inside the node by a worker.
  void copy(Worker& worker, const Place& to, const Place& from, uint64_t bytes, int64_t subject);
  // A worker's target has written a tile: the worker goes on while it travels, one at a time.
  void store(Worker& worker, const Place& to, uint64_t bytes, int64_t subject);
  // A worker's target reads.  Without data the worker goes on: all loads until its next act are one sleep, its
  // finish_loads.
  void load(Worker& worker, const Place& from, uint64_t bytes, int64_t subject);
  void finish_loads(Worker& worker) { stay_busy(worker, worker.loaded); }
  // Waits until what the worker stored is there, as a put does.
  void land_stores(Worker& worker) { stay_busy(worker, std::max(worker.loaded, worker.stores_land)); }
  // An add by a worker; it arrives a latency later, and after what the worker stored.
  void add(Worker& worker, const Signal& signal, uint64_t amount);
  // A stamp by a worker, likewise.
  void stamp(Worker& worker, const Signal& signal, uint64_t stamp);
  // A value.  Without data reads come from spec.value.
  uint32_t read(Worker& worker, const Place& from, int64_t subject);
  void write(Worker& worker, const Place& to, uint32_t value, int64_t subject);
  // Where workers share an SM: a worker writes a part of the caller's result, or adds what it has loaded.  It goes on
  // meanwhile, as after a store.
  void write_result(Worker& worker, uint64_t bytes) {
    if (worker.sm != Worker::kNoSm) worker.stores_land = core_.move(worker, free_at(worker), bytes);
  }
  void sum(Worker& worker, uint64_t moved) {
    if (worker.sm != Worker::kNoSm) worker.stores_land = core_.sum(worker, free_at(worker), moved);
  }
  // A tile's maths.  It takes longer by what a worker inside has moved since the tile before.
  void compute(Worker& worker, const TileWork& work, int64_t tile) {
    const Time missing = worker.sm == Worker::kNoSm ? 0 : std::exchange(core_.sms[worker.sm].missing, 0);
    core_.spend(worker, SpanKind::kTile, later_by(core_.spec.costs.tile(work), missing), tile);
  }

  SimCore& core() { return core_; }
  const SimCore& core() const { return core_; }
  SimMemory& memory() { return memory_; }
  SimSignals& signals() { return signals_; }
  SimNetwork& network() { return network_; }

  Time ended() const { return ended_; }
  uint64_t nvlink_bytes(int rank) const { return ranks_[rank].nvlink_bytes; }
  uint64_t network_bytes(int rank) const { return network_.bytes(rank); }

 private:
  struct Rank {
    int launched = 0;
    int exits = 0;
    Clock clock;  // of everything the rank has done in launches that ended
    Link out;
    Link in;
    uint64_t nvlink_bytes = 0;
  };

  // When all that the worker has begun is done.
  Time free_at(const Worker& worker) const {
    return std::max({core_.scheduler.now(), worker.loaded, worker.stores_land});
  }
  void stay_busy(Worker& worker, Time until) {
    const Time now = core_.scheduler.now();
    if (until <= now) return;
    core_.scheduler.sleep(until - now);
    worker.busy += until - now;
  }
  Time stored_in(const Worker& worker, uint64_t bytes);
  void count_value(Worker& worker, const Place& place);
  void launch(int rank);
  void leave(Worker& worker);
  void report_stuck();

  SimCore core_;
  SimMemory memory_;
  SimSignals signals_;
  SimNetwork network_;
  std::vector<Rank> ranks_;
  std::function<void(Worker&)> body_;
  int launches_ = 0;
  int unfinished_ = 0;  // ranks
  Time ended_ = 0;
};

}  // namespace mk::sim

// SPDX-License-Identifier: MIT
// target/sim/sim_machine.h — the machine whose worker is a fibre.
#pragma once

#include <cstdint>

#include "core/machine.h"
#include "core/value_list.h"
#include "target/sim/sim_world.h"

namespace mk::sim {

class SimMachine {
 public:
  SimMachine(SimWorld& world, Worker& worker)
      : sim_(world), worker_(worker), ring_(world.network().ring(worker.rank)) {}

  const WorldShape& world() const { return sim_.core().spec.world; }
  int rank() const { return worker_.rank; }
  uint64_t epoch() const { return worker_.epoch; }

  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    begin(subject);
    return sim_.signals().wait(worker_, signal, wanted, subject);
  }
  bool wait_some(uint32_t signal, uint64_t wanted, int64_t subject) {
    begin(subject);
    return sim_.signals().wait_some(worker_, signal, wanted, subject);
  }
  bool wait_turn(uint32_t signal, uint64_t turn, int64_t subject) { return wait(signal, turn, subject); }
  void pass_turn(uint32_t signal) { add({rank(), signal}, 1); }
  bool wait_stamp(uint32_t signal, uint64_t stamp, int64_t subject) {
    begin(subject);
    return sim_.signals().wait_stamp(worker_, signal, stamp, subject);
  }
  void stamp(const Signal& signal, uint64_t stamp) { sim_.stamp(worker_, signal, stamp); }
  uint32_t read(const Place& from) { return sim_.read(worker_, from, subject_); }
  ValueList read_list(const Place& from, int count, uint64_t stride) { return read_each(*this, from, count, stride); }
  void write(const Place& to, uint32_t value) { sim_.write(worker_, to, value, subject_); }
  void add(const Signal& signal, uint64_t amount) { sim_.add(worker_, signal, amount); }
  void copy(const Place& to, const Place& from, uint64_t bytes) { sim_.copy(worker_, to, from, bytes, subject_); }
  void store(const Place& to, uint64_t bytes) { sim_.store(worker_, to, bytes, subject_); }
  void load(const Place& from, uint64_t bytes) { sim_.load(worker_, from, bytes, subject_); }
  bool put(const Put& put, int64_t subject) {
    sim_.land_stores(worker_);
    uint64_t position = 0;
    if (!sim_.network().put(worker_, ring_, put, subject, position)) return false;
    puts_end_ = position + 1;
    return true;
  }
  bool settle() {
    sim_.finish_loads(worker_);
    return sim_.network().settle(worker_, puts_end_);
  }
  void refuse(uint32_t, int64_t, uint64_t, uint64_t) {}
  void note(const Event&) {}

  // The target's part of the compute role.
  void compute(const TileWork& work, int64_t tile) {
    subject_ = tile;
    sim_.compute(worker_, work, tile);
  }
  void write_result(uint64_t bytes) { sim_.write_result(worker_, bytes); }
  void sum(uint64_t moved) { sim_.sum(worker_, moved); }
  SimWorld& sim() { return sim_; }

 protected:
  RingView& ring() { return ring_; }  // a test's broken machine may bend it
  Worker& worker() { return worker_; }

 private:
  void begin(int64_t subject) {
    subject_ = subject;
    sim_.finish_loads(worker_);
  }

  SimWorld& sim_;
  Worker& worker_;
  RingView ring_;
  int64_t subject_ = -1;
  uint64_t puts_end_ = 0;
};

static_assert(Machine<SimMachine>);

}  // namespace mk::sim

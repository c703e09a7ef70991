// SPDX-License-Identifier: MIT
// target/ledger/ledger_machine.h — the machine that only writes down.
#pragma once

#include <cstdint>

#include "core/machine.h"
#include "core/value_list.h"
#include "target/ledger/ledger.h"

namespace mk::ledger {

class LedgerMachine {
 public:
  LedgerMachine(Ledger& ledger, const WorldShape& world, int rank, uint64_t epoch)
      : ledger_(ledger), world_(world), rank_(rank), epoch_(epoch) {}

  const WorldShape& world() const { return world_; }
  int rank() const { return rank_; }
  uint64_t epoch() const { return epoch_; }

  bool wait(uint32_t signal, uint64_t wanted, int64_t) {
    ledger_.await(rank_, signal, wanted);
    return true;
  }
  bool wait_some(uint32_t signal, uint64_t wanted, int64_t) {
    ledger_.await_some(rank_, signal, wanted);
    return true;
  }
  bool wait_turn(uint32_t signal, uint64_t turn, int64_t) {
    ledger_.await_turn(rank_, signal, turn);
    return true;
  }
  void pass_turn(uint32_t signal) { ledger_.pay(rank_, {rank_, signal}, 1); }
  bool wait_stamp(uint32_t signal, uint64_t stamp, int64_t) {
    ledger_.await_stamp(rank_, signal, stamp, epoch_);
    return true;
  }
  void stamp(const Signal& signal, uint64_t stamp) { ledger_.stamp_in_node(rank_, signal, stamp, epoch_); }
  uint32_t read(const Place& from) { return ledger_.read(rank_, epoch_, from); }
  ValueList read_list(const Place& from, int count, uint64_t stride) { return read_each(*this, from, count, stride); }
  void write(const Place& to, uint32_t value) { ledger_.write(rank_, epoch_, to, value); }
  void add(const Signal& signal, uint64_t amount) { ledger_.pay(rank_, signal, amount); }
  void copy(const Place& to, const Place& from, uint64_t bytes) { ledger_.copy(rank_, to, from, bytes); }
  void store(const Place& to, uint64_t bytes) { ledger_.store(rank_, to, bytes); }
  void load(const Place& from, uint64_t bytes) { ledger_.load(rank_, from, bytes); }
  bool put(const Put& put, int64_t) {
    ledger_.pay_by_put(rank_, put, epoch_);
    return true;
  }
  bool settle() { return true; }
  void refuse(uint32_t, int64_t, uint64_t, uint64_t) {}
  void note(const Event&) {}

 private:
  Ledger& ledger_;
  WorldShape world_;
  int rank_;
  uint64_t epoch_;
};

static_assert(Machine<LedgerMachine>);

}  // namespace mk::ledger

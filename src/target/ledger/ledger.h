// SPDX-License-Identifier: MIT
// target/ledger/ledger.h — proof by accounts: what is paid into each signal is what is awaited.
//
// Nothing runs.  Every worker of every rank is walked through its protocol once per launch; waits and adds are only
// written down.  After each launch, and over all launches so far, a signal must have been paid exactly what every
// waiter awaited.  If less is paid, a waiter hangs.  If more is paid, a later launch is let through too early.  A
// waiter that awaits less than the others cannot know whose payments it saw.  Four things are exempt, each with rules
// of its own:
//   thresholds   a waiter may await a part of what a launch pays, if one worker makes the payments in order and none of
//                them is a put with bytes, because puts may land in any order
//   turns        a worker may await what was paid before its own payment; each turn of a launch is awaited once, by the
//                worker that then pays it
//   stamps       carry the launch's epoch and grow; for each stamp awaited, somebody stamps at least that in the launch
//   values       are what the oracle, which knows the problem, says; nothing is stored
// The rules of core/signal.h, and that only rails cross nodes, are checked on the way.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/command.h"
#include "core/rules.h"
#include "core/signal.h"
#include "core/window.h"
#include "core/world_shape.h"

namespace mk::ledger {

// The value that lies at a place in a launch, once it was written.
using Oracle = std::function<uint32_t(uint64_t epoch, const Place& place)>;

class Ledger {
 public:
  explicit Ledger(const WorldShape& world, Oracle oracle = {})
      : world_(world), oracle_(std::move(oracle)), nvlink_bytes_(world.size()), network_bytes_(world.size()) {}

  // What follows is done by this worker.
  void begin(int rank, int worker) { acting_ = {rank, worker}; }

  void await(int rank, uint32_t signal, uint64_t wanted);
  void await_some(int rank, uint32_t signal, uint64_t wanted);
  void await_turn(int rank, uint32_t signal, uint64_t turn);
  void await_stamp(int rank, uint32_t signal, uint64_t stamp, uint64_t epoch);
  void stamp_in_node(int from, const Signal& signal, uint64_t stamp, uint64_t epoch);
  uint32_t read(int rank, uint64_t epoch, const Place& from);
  void write(int rank, uint64_t epoch, const Place& to, uint32_t value);
  void pay(int from, const Signal& signal, uint64_t amount);
  void pay_by_put(int from, const Put& put, uint64_t epoch);
  void copy(int rank, const Place& to, const Place& from, uint64_t bytes);
  void store(int rank, const Place& to, uint64_t bytes);
  void load(int rank, const Place& from, uint64_t bytes);

  // Closes a launch; complaints accumulate.
  void close_launch(uint64_t epoch);

  const std::vector<std::string>& complaints() const { return complaints_; }
  uint64_t nvlink_bytes(int rank) const { return nvlink_bytes_[rank]; }
  uint64_t network_bytes(int rank) const { return network_bytes_[rank]; }
  size_t num_signals() const { return accounts_.size(); }

 private:
  using Worker = std::pair<int, int>;  // rank and number in it

  struct Account {
    uint64_t paid = 0;
    uint64_t paid_before = 0;  // this launch
    uint64_t awaited = 0;
    uint64_t least_awaited = UINT64_MAX;  // in this launch
    bool is_partial = false;              // somebody has awaited some of it
    uint64_t some_awaited = 0;            // in this launch: the largest threshold
    std::vector<uint64_t> turns;          // awaited in this launch
    std::optional<Worker> has_the_turn;   // and has not paid yet
    uint64_t stamp = 0;
    uint64_t stamp_awaited = 0;     // in this launch: the largest
    std::optional<Worker> stamper;  // in this launch, over NVLink
    std::optional<Worker> payer;    // the first in this launch
    bool has_other_payers = false;
    int puts_with_bytes = 0;  // in this launch
    Payers payers;
  };

  Account& account(int rank, uint32_t signal) { return accounts_[{rank, signal}]; }
  void stamp(int from, const Signal& signal, uint64_t stamp, uint64_t epoch);
  void note_payer(Account& account, uint64_t bytes_put);
  void close_thresholds(uint64_t epoch, const std::string& where, Account& account);
  void note_turn(Account& account, const Signal& signal, uint64_t amount);
  void close_turns(uint64_t epoch, const std::string& where, Account& account);
  void close_stamps(uint64_t epoch, const std::string& where, Account& account);
  void complain(const std::string& complaint);  // nothing if empty

  WorldShape world_;
  Oracle oracle_;
  Worker acting_{-1, -1};
  std::map<std::pair<int, uint32_t>, Account> accounts_;
  std::vector<uint64_t> nvlink_bytes_;
  std::vector<uint64_t> network_bytes_;
  std::vector<std::string> complaints_;
};

}  // namespace mk::ledger

// SPDX-License-Identifier: MIT
// target/ledger/ledger.h — proof by accounts: what is paid into each signal is what is awaited.
//
// Nothing runs.  Every worker of every rank is walked through its protocol once per launch; waits and
// adds are only written down.  After each launch a signal must have been paid, over all launches so
// far, exactly what everybody awaited who waited for it: less is a hang, more lets a later launch through too
// early, and who awaits less than others cannot know whose payments it saw.  The rules of signal.h, and that only rails
// cross nodes, are checked on the way.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/command.h"
#include "core/rules.h"
#include "core/signal.h"
#include "core/window.h"
#include "core/world_shape.h"

namespace mk::ledger {

class Ledger {
 public:
  explicit Ledger(const WorldShape& world) : world_(world), nvlink_bytes_(world.size()), network_bytes_(world.size()) {}

  void await(int rank, uint32_t signal, uint64_t wanted);
  void pay(int from, const Signal& signal, uint64_t amount);
  void pay_by_put(int from, const Put& put);
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
  struct Account {
    uint64_t paid = 0;
    uint64_t paid_before = 0;  // this launch
    uint64_t awaited = 0;
    uint64_t least_awaited = UINT64_MAX;  // in this launch
    Payers payers;
  };

  Account& account(int rank, uint32_t signal) { return accounts_[{rank, signal}]; }
  void complain(const std::string& complaint);  // nothing if empty

  WorldShape world_;
  std::map<std::pair<int, uint32_t>, Account> accounts_;
  std::vector<uint64_t> nvlink_bytes_;
  std::vector<uint64_t> network_bytes_;
  std::vector<std::string> complaints_;
};

}  // namespace mk::ledger

// SPDX-License-Identifier: MIT
// target/ledger/ledger.cc — see ledger.h.
#include "target/ledger/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mk::ledger {

void Ledger::await(int rank, uint32_t signal, uint64_t wanted) {
  Account& a = account(rank, signal);
  a.awaited = std::max(a.awaited, wanted);
  a.least_awaited = std::min(a.least_awaited, wanted);
  if (wanted <= a.paid_before) {
    complain(fmt::format("rank {} awaits {} of signal {}, which earlier launches paid", rank, wanted, signal));
  }
}

void Ledger::pay(int from, const Signal& signal, uint64_t amount) {
  Account& a = account(signal.rank, signal.index);
  a.paid += amount;
  complain(broken_add_rule(world_, from, signal));
  complain(a.payers.pay_by_add(signal));
}

void Ledger::pay_by_put(int from, const Put& put) {
  Account& a = account(put.signal.rank, put.signal.index);
  a.paid += put.amount;
  network_bytes_[from] += put.bytes;
  complain(a.payers.pay_by_put(from, put.signal));
  complain(broken_put_rule(world_, from, put));
}

void Ledger::copy(int rank, const Place& to, const Place& from, uint64_t bytes) {
  if (to.rank != from.rank) nvlink_bytes_[rank] += bytes;
  complain(broken_copy_rule(world_, rank, to, from));
}

void Ledger::store(int rank, const Place& to, uint64_t bytes) {
  if (to.rank != rank) nvlink_bytes_[rank] += bytes;
  complain(broken_store_rule(world_, rank, to));
}

void Ledger::load(int rank, const Place& from, uint64_t bytes) {
  if (from.rank != rank) nvlink_bytes_[rank] += bytes;
  complain(broken_load_rule(world_, rank, from));
}

void Ledger::complain(const std::string& complaint) {
  if (!complaint.empty()) complaints_.push_back(complaint);
}

void Ledger::close_launch(uint64_t epoch) {
  for (auto& [where, a] : accounts_) {
    const uint64_t least = std::exchange(a.least_awaited, UINT64_MAX);
    if (a.paid > a.paid_before && least < a.paid) {
      complain(fmt::format("in launch {} somebody awaits {} of signal {} of rank {}, which is paid {}", epoch, least,
                           where.second, where.first, a.paid));
    }
    a.paid_before = a.paid;
    if (a.paid == a.awaited) continue;
    complain(fmt::format("after launch {} signal {} of rank {} holds {}, but {} is awaited", epoch, where.second,
                         where.first, a.paid, a.awaited));
  }
}

}  // namespace mk::ledger

// SPDX-License-Identifier: MIT
// target/ledger/ledger.cc — see ledger.h.
#include "target/ledger/ledger.h"

#include <fmt/format.h>

#include <algorithm>

namespace mk::ledger {

void Ledger::await(int rank, uint32_t signal, uint64_t wanted) {
  Account& a = account(rank, signal);
  a.awaited = std::max(a.awaited, wanted);
  if (wanted <= a.paid_before) {
    complain(fmt::format("rank {} awaits {} of signal {}, which earlier launches paid", rank, wanted, signal));
  }
}

void Ledger::pay(int from, const Signal& signal, uint64_t amount) {
  Account& a = account(signal.rank, signal.index);
  a.paid += amount;
  a.nvlink = true;
  if (!world_.same_node(from, signal.rank)) {
    complain(fmt::format("rank {} adds to a signal of rank {}, which is on another node", from, signal.rank));
  }
  if (a.put_payer >= 0) {
    complain(fmt::format("signal {} of rank {} is paid over NVLink and by puts", signal.index, signal.rank));
  }
}

void Ledger::pay_by_put(int from, const Put& put) {
  const int to = put.signal.rank;
  Account& a = account(to, put.signal.index);
  a.paid += put.amount;
  network_bytes_[from] += put.bytes;
  if (a.nvlink) complain(fmt::format("signal {} of rank {} is paid over NVLink and by puts", put.signal.index, to));
  if (a.put_payer >= 0 && a.put_payer != from) {
    complain(
        fmt::format("puts of ranks {} and {} both pay signal {} of rank {}", a.put_payer, from, put.signal.index, to));
  }
  a.put_payer = from;
  if (put.to.rank != to) complain(fmt::format("a put to rank {} signals rank {}", put.to.rank, to));
  if (put.from.rank != from || put.from.window == kInputWindow) {
    complain(fmt::format("a put of rank {} starts outside its own windows", from));
  }
  if (world_.same_node(from, to) || world_.local_of(from) != world_.local_of(to)) {
    complain(fmt::format("a put of rank {} to rank {} leaves its rail", from, to));
  }
}

void Ledger::copy(int rank, const Place& to, const Place& from, uint64_t bytes) {
  if (to.rank != from.rank) nvlink_bytes_[rank] += bytes;
  if (!world_.same_node(rank, to.rank) || !world_.same_node(rank, from.rank)) {
    complain(fmt::format("rank {} copies from rank {} to rank {} across nodes", rank, from.rank, to.rank));
  }
  if (from.window == kInputWindow && from.rank != rank) {
    complain(fmt::format("rank {} reads the input of rank {}", rank, from.rank));
  }
}

void Ledger::close_launch(uint64_t epoch) {
  for (auto& [where, a] : accounts_) {
    a.paid_before = a.paid;
    if (a.paid == a.awaited) continue;
    complain(fmt::format("after launch {} signal {} of rank {} holds {}, but {} is awaited", epoch, where.second,
                         where.first, a.paid, a.awaited));
  }
}

}  // namespace mk::ledger

// SPDX-License-Identifier: MIT
// target/ledger/ledger.cc — see ledger.h.
#include "target/ledger/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/stamp.h"

namespace mk::ledger {

void Ledger::await(int rank, uint32_t signal, uint64_t wanted) {
  Account& a = account(rank, signal);
  a.awaited = std::max(a.awaited, wanted);
  a.least_awaited = std::min(a.least_awaited, wanted);
  if (wanted <= a.paid_before) {
    complain(fmt::format("rank {} awaits {} of signal {}, which earlier launches paid", rank, wanted, signal));
  }
}

void Ledger::await_some(int rank, uint32_t signal, uint64_t wanted) {
  Account& a = account(rank, signal);
  a.is_partial = true;
  a.some_awaited = std::max(a.some_awaited, wanted);
  if (wanted < a.paid_before) {
    complain(fmt::format("rank {} awaits {} of signal {}, which earlier launches paid", rank, wanted, signal));
  }
}

void Ledger::await_turn(int rank, uint32_t signal, uint64_t turn) {
  Account& a = account(rank, signal);
  if (a.has_the_turn) complain(fmt::format("of signal {} of rank {} a turn is awaited and not paid", signal, rank));
  a.turns.push_back(turn);
  a.has_the_turn = acting_;
}

void Ledger::await_stamp(int rank, uint32_t signal, uint64_t stamp, uint64_t epoch) {
  Account& a = account(rank, signal);
  a.stamp_awaited = std::max(a.stamp_awaited, stamp);
  if (epoch_in(stamp) != epoch) {
    complain(fmt::format("in launch {} rank {} awaits a stamp of launch {} of signal {}", epoch, rank, epoch_in(stamp),
                         signal));
  }
}

void Ledger::note_payer(Account& a, uint64_t bytes_put) {
  if (!a.payer) a.payer = acting_;
  a.has_other_payers = a.has_other_payers || *a.payer != acting_;
  if (bytes_put > 0) ++a.puts_with_bytes;
}

void Ledger::note_turn(Account& a, const Signal& signal, uint64_t amount) {
  if (a.turns.empty()) return;
  const bool is_next = a.has_the_turn == acting_ && amount == 1;
  a.has_the_turn.reset();
  if (is_next) return;
  complain(fmt::format("{} is paid into signal {} of rank {} by a worker whose turn it is not", amount, signal.index,
                       signal.rank));
}

void Ledger::pay(int from, const Signal& signal, uint64_t amount) {
  Account& a = account(signal.rank, signal.index);
  a.paid += amount;
  note_payer(a, 0);
  note_turn(a, signal, amount);
  complain(broken_add_rule(world_, from, signal));
  complain(a.payers.pay_by_add(signal));
}

void Ledger::stamp_in_node(int from, const Signal& signal, uint64_t value, uint64_t epoch) {
  complain(broken_add_rule(world_, from, signal));
  stamp(from, signal, value, epoch);
  // Machines store it, so of two workers the later store stays, whichever stamp is larger.
  Account& a = account(signal.rank, signal.index);
  if (a.stamper && *a.stamper != acting_) {
    complain(fmt::format("in launch {} two workers of rank {} stamp signal {} of rank {}", epoch, from, signal.index,
                         signal.rank));
  }
  a.stamper = acting_;
}

void Ledger::stamp(int from, const Signal& signal, uint64_t stamp, uint64_t epoch) {
  Account& a = account(signal.rank, signal.index);
  if (epoch_in(stamp) != epoch) {
    complain(fmt::format("in launch {} rank {} stamps signal {} of rank {} for launch {}", epoch, from, signal.index,
                         signal.rank, epoch_in(stamp)));
  }
  if (stamp <= a.stamp) {
    complain(fmt::format("in launch {} rank {} stamps signal {} of rank {} with {}, which holds {}", epoch, from,
                         signal.index, signal.rank, stamp, a.stamp));
  }
  a.stamp = std::max(a.stamp, stamp);
  complain(a.payers.pay_by_stamp(from, signal));
}

void Ledger::pay_by_put(int from, const Put& put, uint64_t epoch) {
  Account& a = account(put.signal.rank, put.signal.index);
  network_bytes_[from] += put.bytes;
  note_payer(a, put.bytes);
  if (put.stamp != 0) {
    stamp(from, put.signal, put.stamp, epoch);
  } else {
    a.paid += put.amount;
    complain(a.payers.pay_by_put(from, put.signal));
  }
  complain(broken_put_rule(world_, from, put));
}

uint32_t Ledger::read(int rank, uint64_t epoch, const Place& from) {
  if (from.rank != rank) nvlink_bytes_[rank] += sizeof(uint32_t);
  complain(broken_read_rule(world_, rank, from));
  if (!oracle_) complain(fmt::format("rank {} reads a value, and there is no oracle", rank));
  return oracle_ ? oracle_(epoch, from) : 0;
}

void Ledger::write(int rank, uint64_t epoch, const Place& to, uint32_t value) {
  if (to.rank != rank) nvlink_bytes_[rank] += sizeof(uint32_t);
  complain(broken_write_rule(world_, rank, to));
  const uint32_t right = oracle_ ? oracle_(epoch, to) : 0;
  if (value == right) return;
  complain(fmt::format("in launch {} rank {} writes {} at byte {} of window {} of rank {}, where {} belongs", epoch,
                       rank, value, to.offset, to.window, to.rank, right));
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
  for (auto& [at, a] : accounts_) {
    const std::string where = fmt::format("signal {} of rank {}", at.second, at.first);
    const uint64_t least = std::exchange(a.least_awaited, UINT64_MAX);
    if (a.paid > a.paid_before && least < a.paid) {
      complain(fmt::format("in launch {} somebody awaits {} of {}, which is paid {}", epoch, least, where, a.paid));
    }
    close_thresholds(epoch, where, a);
    close_turns(epoch, where, a);
    close_stamps(epoch, where, a);
    a.paid_before = a.paid;
    a.payer.reset();
    a.has_other_payers = false;
    a.puts_with_bytes = 0;
    if (a.paid == a.awaited) continue;
    complain(fmt::format("after launch {} {} holds {}, but {} is awaited", epoch, where, a.paid, a.awaited));
  }
}

void Ledger::close_thresholds(uint64_t epoch, const std::string& where, Account& a) {
  const uint64_t most = std::exchange(a.some_awaited, 0);
  if (!a.is_partial) return;
  if (most > a.paid) {
    complain(fmt::format("in launch {} somebody awaits {} of {}, which is paid {}", epoch, most, where, a.paid));
  }
  if (a.has_other_payers) {
    complain(fmt::format("in launch {} somebody awaits some of {}, which several workers pay", epoch, where));
  }
  if (a.puts_with_bytes > 0) {
    complain(
        fmt::format("in launch {} somebody awaits some of {}, which puts with bytes pay in any order", epoch, where));
  }
  a.awaited = std::max(a.awaited, a.paid);  // what is left over was for nobody
}

void Ledger::close_turns(uint64_t epoch, const std::string& where, Account& a) {
  if (a.turns.empty()) return;
  std::ranges::sort(a.turns);
  bool is_whole = a.turns.size() == a.paid - a.paid_before;
  for (size_t i = 0; i < a.turns.size(); ++i) is_whole = is_whole && a.turns[i] == a.paid_before + i;
  if (!is_whole) {
    complain(fmt::format("in launch {} {} turns of {} are awaited, of {} to {}, not each of {} to {} once", epoch,
                         a.turns.size(), where, a.turns.front(), a.turns.back(), a.paid_before, a.paid - 1));
  }
  a.turns.clear();
  a.has_the_turn.reset();
}

void Ledger::close_stamps(uint64_t epoch, const std::string& where, Account& a) {
  a.stamper.reset();
  const uint64_t most = std::exchange(a.stamp_awaited, 0);
  if (most == 0) return;
  if (most > a.stamp) {
    complain(fmt::format("in launch {} somebody awaits stamp {} of launch {} of {}, which holds {} of launch {}", epoch,
                         low_in(most), epoch_in(most), where, low_in(a.stamp), epoch_in(a.stamp)));
  }
}

}  // namespace mk::ledger

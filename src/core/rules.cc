// SPDX-License-Identifier: MIT
// core/rules.cc — see rules.h.
#include "core/rules.h"

#include <fmt/format.h>

namespace mk {

std::string broken_copy_rule(const WorldShape& world, int rank, const Place& to, const Place& from) {
  if (!world.same_node(rank, to.rank) || !world.same_node(rank, from.rank)) {
    return fmt::format("rank {} copies from rank {} to rank {} across nodes", rank, from.rank, to.rank);
  }
  if (is_input(from.window) && from.rank != rank) {
    return fmt::format("rank {} reads the input of rank {}", rank, from.rank);
  }
  return {};
}

std::string broken_store_rule(const WorldShape& world, int rank, const Place& to) {
  if (!world.same_node(rank, to.rank)) return fmt::format("rank {} stores to rank {} across nodes", rank, to.rank);
  if (to.window < kFirstOperatorWindow) {
    return fmt::format("rank {} stores outside the operator's windows of rank {}", rank, to.rank);
  }
  return {};
}

std::string broken_load_rule(const WorldShape& world, int rank, const Place& from) {
  if (!world.same_node(rank, from.rank)) return fmt::format("rank {} loads from rank {} across nodes", rank, from.rank);
  if (is_input(from.window) && from.rank != rank) {
    return fmt::format("rank {} reads the input of rank {}", rank, from.rank);
  }
  return {};
}

std::string broken_add_rule(const WorldShape& world, int from, const Signal& signal) {
  if (world.same_node(from, signal.rank)) return {};
  return fmt::format("rank {} adds to a signal of rank {}, which is on another node", from, signal.rank);
}

std::string broken_put_rule(const WorldShape& world, int from, const Put& put) {
  const int to = put.signal.rank;
  if (put.to.rank != to) return fmt::format("a put to rank {} signals rank {}", put.to.rank, to);
  if (put.from.rank != from || is_input(put.from.window)) {
    return fmt::format("a put of rank {} starts outside its own windows", from);
  }
  if (world.same_node(from, to) || world.local_of(from) != world.local_of(to)) {
    return fmt::format("a put of rank {} to rank {} leaves its rail", from, to);
  }
  return {};
}

std::string broken_read_rule(const WorldShape& world, int rank, const Place& from) {
  if (from.window == kSignalWindow) return fmt::format("rank {} reads a signal of rank {} as a value", rank, from.rank);
  return broken_load_rule(world, rank, from);
}

std::string broken_write_rule(const WorldShape& world, int rank, const Place& to) {
  return broken_store_rule(world, rank, to);
}

std::string Payers::pay_by_stamp(int from, const Signal& signal) {
  const int before = stamp_payer_;
  stamp_payer_ = from;
  if (counted_) return fmt::format("signal {} of rank {} is stamped and added to", signal.index, signal.rank);
  if (before < 0 || before == from) return {};
  return fmt::format("ranks {} and {} both stamp signal {} of rank {}", before, from, signal.index, signal.rank);
}

std::string Payers::pay_by_add(const Signal& signal) {
  added_ = true;
  counted_ = true;
  if (stamp_payer_ >= 0) return fmt::format("signal {} of rank {} is stamped and added to", signal.index, signal.rank);
  if (put_payer_ < 0) return {};
  return fmt::format("signal {} of rank {} is paid over NVLink and by puts", signal.index, signal.rank);
}

std::string Payers::pay_by_put(int from, const Signal& signal) {
  const int before = put_payer_;
  put_payer_ = from;
  counted_ = true;
  if (stamp_payer_ >= 0) return fmt::format("signal {} of rank {} is stamped and added to", signal.index, signal.rank);
  if (added_) return fmt::format("signal {} of rank {} is paid over NVLink and by puts", signal.index, signal.rank);
  if (before < 0 || before == from) return {};
  return fmt::format("puts of ranks {} and {} both pay signal {} of rank {}", before, from, signal.index, signal.rank);
}

}  // namespace mk

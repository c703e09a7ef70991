// SPDX-License-Identifier: MIT
// runtime/fault_report.cc — see fault_report.h.
#include "runtime/fault_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

namespace mk::runtime {
namespace {

std::string what_was_awaited(const FaultRecord& record, const Names& names) {
  if (record.kind == FaultKind::kRingFull || record.signal == kRingRoom) return "room in the command ring";
  if (record.kind == FaultKind::kUnsettled || record.signal == kPutsDone) return "its puts to complete";
  if (record.signal == kBegin) return "its launch to begin";
  return names.signal(record.signal);
}

}  // namespace

std::string describe_fault(const FaultRecord& record, int64_t timeout_ms, const Names& names) {
  if (record.kind == FaultKind::kNoMemory) {
    return fmt::format("rank {} {} {} ran out of memory, launch {}", record.rank, names.role(record.role),
                       record.worker, record.epoch);
  }
  const std::string subject = record.tile < 0 ? "" : fmt::format(", {} {}", names.subject(record.role), record.tile);
  const std::string how =
      record.kind == FaultKind::kStopped ? "was stopped while it waited" : fmt::format("waited {} ms", timeout_ms);
  return fmt::format("rank {} {} {} {} for {} to reach {} (it holds {}), launch {}{}", record.rank,
                     names.role(record.role), record.worker, how, what_was_awaited(record, names), record.wanted,
                     record.seen, record.epoch, subject);
}

std::string describe_faults(const std::vector<FaultRecord>& records, int64_t timeout_ms, const NamesOf& names_of) {
  // Who waited for a worker of its own rank suffered, and so did who was stopped; who timed out saw the cause.
  // Communication roles stand nearer to it.
  const auto is_compute = [&](const FaultRecord& r) { return r.role + 1 == std::ssize(names_of(r).roles); };
  const auto worst = std::min_element(records.begin(), records.end(), [&](const auto& a, const auto& b) {
    const auto order = [&](const FaultRecord& r) {
      if (r.kind == FaultKind::kNoMemory) return -1;
      const auto& is_inner = names_of(r).is_inner;
      const bool waited_inside = is_inner && is_inner(r.signal);
      return (waited_inside ? 4 : 0) + (r.kind == FaultKind::kStopped ? 2 : 0) + (is_compute(r) ? 1 : 0);
    };
    return order(a) < order(b);
  });
  std::set<int> ranks;
  std::set<std::tuple<int, int, int>> workers;  // one may have left two records
  for (const FaultRecord& record : records) {
    ranks.insert(record.rank);
    workers.insert({record.rank, record.role, record.worker});
  }
  std::string text = describe_fault(*worst, timeout_ms, names_of(*worst));
  if (workers.size() > 1) {
    constexpr size_t kMostNamed = 16;
    const std::vector<int> named(ranks.begin(), std::next(ranks.begin(), std::min(ranks.size(), kMostNamed)));
    text += fmt::format("; {} workers gave up, on ranks {}", workers.size(), fmt::join(named, ", "));
    if (ranks.size() > named.size()) text += fmt::format(" and {} more", ranks.size() - named.size());
  }
  return text;
}

}  // namespace mk::runtime

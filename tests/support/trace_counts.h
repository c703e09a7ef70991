// SPDX-License-Identifier: MIT
// tests/support/trace_counts.h — how often each thing was noted in a trace of several launches.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "core/event.h"
#include "core/world_shape.h"

namespace mk::test {

// By launch, rank, subject and peer.
using TraceCounts = std::map<std::tuple<uint64_t, int, int64_t, int>, int>;

inline TraceCounts counts_of(const std::vector<EventRecord>& records, EventKind kind) {
  TraceCounts counts;
  for (const EventRecord& r : records) {
    if (r.event.kind == kind) ++counts[{r.epoch, r.rank, r.event.subject, r.event.peer}];
  }
  return counts;
}

// What each launch of a world should note: expect(rank, note) calls note(subject, peer) for each.
template <class Expect>
TraceCounts in_every_launch(int launches, const WorldShape& world, Expect&& expect) {
  TraceCounts counts;
  for (int launch = 1; launch <= launches; ++launch) {
    for (int rank = 0; rank < world.size(); ++rank) {
      expect(rank, [&](int64_t subject, int peer) { ++counts[{launch, rank, subject, peer}]; });
    }
  }
  return counts;
}

}  // namespace mk::test

// SPDX-License-Identifier: MIT
// ops/cost_model.h — how long a rank's compute and links take, and how many workers should communicate.
#pragma once

#include <cstdint>

#include "core/roles.h"

namespace mk::cost {

// What a rank does in a launch.
struct RankWork {
  double flops = 0;
  double nvlink_bytes = 0;   // from it to its peers
  double network_bytes = 0;  // from it to other nodes
  double moved_bytes = 0;    // read and written by its communication workers
  double spare = 0.95;       // seats beyond what the pace needs, for when much arrives at once
};

// How long a rank's seats compute and its links carry, in seconds, on an H200.
struct RankTime {
  double compute = 0;
  double links = 0;

  double slowest() const { return compute > links ? compute : links; }
};
RankTime time_of(const Seats& seats, const RankWork& work);

// Bytes a second that a communication worker reads and writes, where eight share a seat.
constexpr double kMovedPerWorkerSecond = 10e9;

// How many workers each of `roles` communication roles should have.  Where they share seats, all together get as many
// seats as keep pace with the slowest of compute, NVLink and network, plus the spare.  Where each has its own, eight
// of a kind keep NVLink busy.
int fair_share(const Seats& seats, int roles, const RankWork& work);

// Single-node variant for roles that sum.  After compute ends they still sum the last wave of the rank's own `tiles`,
// so they may get more workers than `fair_share`, if the model says that the launch then ends earlier
// (docs/performance.md).
int share_for_sums(const Seats& seats, int roles, const RankWork& work, int64_t tiles);

}  // namespace mk::cost

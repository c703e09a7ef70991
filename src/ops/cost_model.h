// SPDX-License-Identifier: MIT
// ops/cost_model.h — how long a rank's compute and links take, and how many workers should communicate.
//
// The rates are those of target/h200.h.  The constants here are headroom: how many more workers a role gets than its
// rate needs.  They come from sweeps ("Splits" and "What changes gave" in docs/performance.md).
#pragma once

#include <cstdint>

#include "core/roles.h"

namespace mk::cost {

// SMs for communication beyond what its pace needs.
constexpr double kSpareForSums = 0.95;    // sums wait for each other: much arrives at once
constexpr double kSpareForCopies = 0.45;  // copies are never blocked by sums
constexpr double kSpareOfLinks = 1.45;    // copies where the links bind: compute waits for them and misses no SM
constexpr double kMoreForSlowLinks = 2;   // GEMM+AllReduce where the links take twice as long as compute

// Workers that stage for the network are as many as keep pace with the launch, times this: compute waits for what the
// others pass on, and staging ahead of the network gains nothing.
constexpr double kSendPace = 1.1;

// What a rank does in a launch.
struct RankWork {
  double flops = 0;
  double nvlink_bytes = 0;   // from it to its peers
  double network_bytes = 0;  // from it to other nodes
  double moved_bytes = 0;    // read and written by its communication workers
  double spare = kSpareForSums;
};

// How long a rank's seats compute and its links carry, in seconds, on an H200.
struct RankTime {
  double compute = 0;
  double links = 0;

  double slowest() const { return compute > links ? compute : links; }
};
RankTime time_of(const Seats& seats, const RankWork& work);

// How many workers each of `roles` communication roles should have.  Where they share seats, all together get as many
// seats as keep pace with the slowest of compute, NVLink and network, plus the spare.  Where each has its own, eight
// of a kind keep NVLink busy.
int fair_share(const Seats& seats, int roles, const RankWork& work);

// Single-node variant for roles that sum.  After compute ends they still sum the last wave of the rank's own `tiles`,
// so they may get more workers than `fair_share`, if the model says that the launch then ends earlier
// (docs/performance.md).
int share_for_sums(const Seats& seats, int roles, const RankWork& work, int64_t tiles);

}  // namespace mk::cost

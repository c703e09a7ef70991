// SPDX-License-Identifier: MIT
// target/sm90/communication_block.h — which blocks of a launch communicate, and which of their warps.
//
// Workers that share an SM come first, a warp each, several to a block; then those with an SM of their own, a block
// each; then each worker that computes has a block, with a warp for each worker inside.
#pragma once

#include "base/math.h"
#include "core/roles.h"

namespace mk::sm90 {

// Communication workers that share an SM: its shared memory has room for what so many have in flight.
constexpr int kWorkersPerSm = 8;

MK_HD constexpr int sharing_blocks(const Roster& roles) { return ceil_div(roles.num_shared(), kWorkersPerSm); }
MK_HD constexpr int communication_blocks(const Roster& roles) { return Seats(0, kWorkersPerSm).outside(roles); }
MK_HD constexpr int num_blocks(const Roster& roles) { return communication_blocks(roles) + roles.num_compute(); }

// The workers of a block are numbered from `first` on.
struct BlockWorkers {
  int first = 0;
  int count = 0;
};

MK_HD constexpr BlockWorkers workers_of(const Roster& roles, int block) {
  const int before = communication_blocks(roles);
  if (block >= before) return {roles.compute_worker(block - before), roles.workers_per_compute()};
  const int sharing = sharing_blocks(roles);
  if (block >= sharing) return {roles.num_shared() + block - sharing, 1};
  const int first = block * kWorkersPerSm;
  return {first, min_of(kWorkersPerSm, roles.num_shared() - first)};
}

}  // namespace mk::sm90

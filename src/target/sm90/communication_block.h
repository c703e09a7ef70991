// SPDX-License-Identifier: MIT
// target/sm90/communication_block.h — which blocks of a launch communicate, and which of their warps.
//
// Communication workers come first, a warp each, several to a block; then each compute worker has a block, with a
// warp that is the worker beside it, if there is one.
#pragma once

#include "base/math.h"
#include "core/roles.h"

namespace mk::sm90 {

MK_HD constexpr int communication_blocks(const RoleCounts& roles) {
  return Places(0, kCommunicationWorkersPerSm).of_communication(roles);
}
MK_HD constexpr int num_blocks(const RoleCounts& roles) { return communication_blocks(roles) + roles.compute; }

// The workers of a block are numbered from `first` on.
struct BlockWorkers {
  int first = 0;
  int count = 0;
};

MK_HD constexpr BlockWorkers workers_of(const RoleCounts& roles, int block) {
  const int before = communication_blocks(roles);
  if (block >= before) return {roles.compute_worker(block - before), roles.workers_together()};
  const int first = block * kCommunicationWorkersPerSm;
  return {first, min_of(kCommunicationWorkersPerSm, roles.apart() - first)};
}

}  // namespace mk::sm90

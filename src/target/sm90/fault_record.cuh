// SPDX-License-Identifier: MIT
// target/sm90/fault_record.cuh — what a worker leaves of a fault, for the host to read.
#pragma once

#include <cstdint>

#include "core/rank_view.h"
#include "core/roles.h"
#include "target/sm90/ptx.cuh"

namespace mk::sm90 {

struct Fault {
  FaultKind kind;
  uint32_t signal;
  int64_t subject;
  uint64_t seen;
  uint64_t wanted;
  uint64_t epoch;
};

__device__ inline void fill_record(FaultRecord& record, const RankView& view, const Post& post, const Fault& fault) {
  record.kind = fault.kind;
  record.rank = view.rank;
  record.role = post.role;
  record.worker = post.index;
  record.plan = view.plan;
  record.signal = fault.signal;
  record.tile = fault.subject;
  record.seen = fault.seen;
  record.wanted = fault.wanted;
  record.epoch = fault.epoch;
  SystemAtomics::store_release(&record.sealed, 1);  // pairs with Plan::faults
}

}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// core/rank_view.h — all a worker knows of its rank, its node and its plan.
//
// Trivially copyable: it travels in kernel parameters.  The epoch is not in it: it lives in memory as
// `exits`, to which every worker adds one when it leaves.  A launch of `workers` workers is number
// exits / workers + 1, and that stays so until its last worker has left: launches queue back to back
// and graphs replay with no host work in between.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "core/fault.h"
#include "core/ring.h"
#include "core/window.h"
#include "core/world_shape.h"

namespace mk {

constexpr int kTargetWords = 8;

struct RankView {
  WorldShape world;
  int rank = 0;
  int workers = 1;
  uint32_t plan = 0;
  WindowTable windows;
  RingView ring;
  uint64_t* exits = nullptr;
  uint64_t* target_words = nullptr;  // kTargetWords of the target's own, zero before the first launch
  uint64_t* nvlink_bytes = nullptr;  // bytes this rank moved to or from peers of its node, over all launches
  uint64_t* stop = nullptr;          // host-visible; non-zero: leave
  FaultRecord* faults = nullptr;     // host-visible; [worker][kRecordsPerWorker]
  uint64_t timeout_ns = 0;

  MK_HD FaultRecord& fault_record(int worker, int part) const { return faults[worker * kRecordsPerWorker + part]; }
  MK_HD uint64_t epoch_after(uint64_t exits_seen) const { return exits_seen / workers + 1; }
};

}  // namespace mk

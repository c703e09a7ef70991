// SPDX-License-Identifier: MIT
// target/sm90/stop_look.cuh — whether a rank has stopped: one of its workers looks for all.
//
// The stop word lies in host memory.  Reads of one word there are served one after the other, about a million a second,
// and a fence at system scope waits behind them: with 64 blocks that read it all the time a fence takes 75 µs, with a
// thousand warps 6 ms (measured on an H200).  So one worker looks, twice a millisecond, and leaves word for the others.
#pragma once

#include <cstdint>

#include "core/rank_view.h"
#include "target/sm90/ptx.cuh"
#include "target/sm90/rank_words.h"

namespace mk::sm90 {

constexpr uint64_t kLookNs = 500'000;  // between looks

__device__ inline bool is_stopped(const RankView& view, uint64_t now) {
  uint64_t* const looked = looked_of(view);
  const uint64_t last = SystemAtomics::load_relaxed(looked);
  if (last == kStopSeen) return true;
  if (now < last + kLookNs || !SystemAtomics::replace_relaxed(looked, last, now)) return false;  // another looks
  if (SystemAtomics::load_relaxed(view.stop) == 0) return false;
  SystemAtomics::store_relaxed(looked, kStopSeen);
  return true;
}

}  // namespace mk::sm90

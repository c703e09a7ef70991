// SPDX-License-Identifier: MIT
// target/sm90/claiming_machine.cuh — a machine whose compute blocks claim tiles: whoever is free takes the next one.
//
// Some SMs are slower than others, for as long as a launch takes, where ranks share a GPU (docs/performance.md). Blocks
// that claim are also at neighbouring tiles, and find in the L2 what others load.
#pragma once

#include <cstdint>

#include "target/sm90/ptx.cuh"
#include "target/sm90/rank_words.h"
#include "target/sm90/sm90_machine.cuh"

namespace mk::sm90 {

// For one warp of each compute block.
class ClaimingMachine : public Sm90Machine<WarpCrew> {
 public:
  __device__ ClaimingMachine(const RankView& view, const Post& post, int worker, int part, uint32_t* failed = nullptr)
      : Sm90Machine(view, post, worker, {}, NoPace(), part, failed), word_(steps_of(view)) {}

  // 0 at first.  How many there are differs from launch to launch, so the word carries the epoch in its upper half.
  __device__ int64_t claim() {
    if (!has_asked_) ask();
    has_asked_ = false;
    return static_cast<int64_t>(__shfl_sync(0xffffffffu, claimed_, 0) & 0xffffffffu);
  }
  // For what the next claim() returns: the answer takes most of a microsecond, and this does not wait for it.
  __device__ void ask() {
    if (threadIdx.x % 32 == 0) {
      if (!has_claimed_) SystemAtomics::raise_relaxed(word_, epoch() << 32);
      claimed_ = SystemAtomics::add_relaxed(word_, 1);
    }
    has_claimed_ = true;
    has_asked_ = true;
  }

 private:
  uint64_t* const word_;
  uint64_t claimed_ = 0;  // of the first lane
  bool has_claimed_ = false;
  bool has_asked_ = false;
};

}  // namespace mk::sm90

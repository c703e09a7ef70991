// SPDX-License-Identifier: MIT
// target/sm90/warp_crew.cuh — a warp that acts as one worker.
//
// The leader is elected by an instruction, not chosen by its number.  So the compiler knows that one lane is left, and
// a bulk copy needs no loop over lanes.  All lanes take part in the election.
#pragma once

#include "core/crew.h"
#include "target/sm90/ptx.cuh"

namespace mk::sm90 {

struct WarpCrew {
  __device__ bool is_leader() const { return is_one_lane(); }
  __device__ void sync() const { __syncwarp(); }
  __device__ bool leader_says(bool mine) const { return __any_sync(0xffffffffu, is_leader() && mine) != 0; }
  __device__ uint32_t leaders(uint32_t value) const { return __reduce_or_sync(0xffffffffu, is_leader() ? value : 0); }
};

}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// target/sm90/warp_crew.cuh — a warp that acts as one worker.
#pragma once

#include "core/crew.h"

namespace mk::sm90 {

struct WarpCrew {
  __device__ bool is_leader() const { return threadIdx.x % 32 == 0; }
  __device__ void sync() const { __syncwarp(); }
  __device__ bool leader_says(bool mine) const { return __shfl_sync(0xffffffffu, mine, 0); }
};

}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// target/sm90/block_crew.cuh — a block that acts as one worker.
#pragma once

#include "core/crew.h"

namespace mk::sm90 {

struct BlockCrew {
  __device__ bool is_leader() const { return threadIdx.x == 0; }
  __device__ void sync() const { __syncthreads(); }
  __device__ bool leader_says(bool mine) const { return __syncthreads_or(is_leader() && mine) != 0; }
};

}  // namespace mk::sm90

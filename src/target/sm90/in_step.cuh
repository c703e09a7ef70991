// SPDX-License-Identifier: MIT
// target/sm90/in_step.cuh — compute blocks of a rank begin each wave of tiles together.
//
// Blocks of a wave share rows of A and columns of B: what one block loads, the others find in the L2, as long as all
// are at about the same k.  If a rank has only a part of a GPU and its L2, and k is long, blocks drift apart and each
// loads from memory by itself (inferred from times, not counted: docs/performance.md).  So a block that reaches a wave
// waits for the others.  Correctness does not depend on it: a block that has waited for kPatienceNs goes on.
#pragma once

#include <cstdint>

#include "core/rank_view.h"
#include "core/roles.h"
#include "target/sm90/gemm_config.h"
#include "target/sm90/ptx.cuh"
#include "target/sm90/rank_words.h"

namespace mk::sm90 {

class InStep {
 public:
  // For a compute block of a launch with so many tiles and such a k.
  __device__ InStep(const RankView& view, const Post& post, int64_t tiles, int64_t k)
      : view_(view), blocks_(post.count), waves_(keeps_step(post.count, k) ? tiles / post.count : 0) {}

  // A warp calls this before it loads a tile.  The first wave begins together by itself, and the last, if it is not a
  // whole one, is not waited for.
  __device__ void next() {
    const int64_t wave = wave_++;
    if (wave == 0 || wave >= waves_) return;
    if (is_one_lane()) come_to(wave);
    __syncwarp();
  }

 private:
  static constexpr uint64_t kPatienceNs = 200'000;

  __device__ void come_to(int64_t wave) {
    const uint64_t launch = view_.epoch_after(SystemAtomics::load_acquire(view_.exits)) - 1;
    const uint64_t all = (launch * (waves_ - 1) + wave) * blocks_;
    SystemAtomics::tell_relaxed(steps_of(view_), 1);
    const uint64_t began = clock_ns();
    while (SystemAtomics::load_relaxed(steps_of(view_)) < all && clock_ns() - began < kPatienceNs) {
    }
  }

  const RankView& view_;
  const int blocks_;
  const int64_t waves_;  // whole ones; 0: this launch does not keep step
  int64_t wave_ = 0;
};

}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// bench/paced_link.cuh — a pace (target/sm90/pace.cuh) that slows a rank's links down.
//
// All workers of a rank share NVLink's word; a copy reserves its time before it starts and is published no earlier
// than the end of it.  The network is a NIC, which a spare warp of the rank plays (nic_warp.cuh) until all workers
// that communicate have left.
#pragma once

#include <cstdint>
#include <cuda/atomic>

#include "bench/nic_warp.cuh"
#include "bench/pace.h"
#include "target/sm90/bulk_copier.cuh"
#include "target/sm90/ptx.cuh"

namespace mk::bench {

class PacedLink {
 public:
  using Setting = RankPace;
  static constexpr bool kServesPuts = true;

  // The setting outlives this: it is the kernel's parameter.
  __device__ explicit PacedLink(const RankPace& pace) : pace_(pace) {}

  // Before the copy of these bytes.
  __device__ void charge(uint64_t bytes) {
    if (pace_.nvlink.ns_per_byte == 0) return;
    // As reserve() does, in two steps: a hundred warps that compare and exchange would take 15 us each.  Who comes
    // between the two only makes the link free later.  Relaxed: the word orders nothing, and only the workers of this
    // GPU look at it.
    const cuda::atomic_ref<uint64_t, cuda::thread_scope_device> free_at(*pace_.nvlink.free_at);
    const uint64_t duration = duration_ns(bytes, pace_.nvlink.ns_per_byte);
    free_at.fetch_max(sm90::clock_ns(), cuda::memory_order_relaxed);
    end_ = free_at.fetch_add(duration, cuda::memory_order_relaxed) + duration;
  }

  // Before the release that publishes them.  Ends by itself: what is reserved is a span of time.
  __device__ void wait() const {
    while (sm90::clock_ns() < end_) {
    }
  }

  // Once a launch, by the leader of each worker that communicates, as its last act.
  __device__ void leave() const {
    if (pace_.nic.words == nullptr) return;
    const cuda::atomic_ref<uint64_t, cuda::thread_scope_device> left(pace_.nic.words->left);
    left.fetch_add(1, cuda::memory_order_release);  // pairs with NicWarp::left
  }

  // A whole warp plays the NIC until `left` has reached that: workers that leave × launches so far.  So all
  // paced launches of a rank are of one plan.  The pieces are prepared and nobody else's.
  __device__ void serve_puts(const sm90::BulkPieces& pieces, uint64_t until_left) const {
    if (pace_.nic.words != nullptr) NicWarp(pace_.nic, pieces).serve(until_left);
  }

 private:
  const RankPace& pace_;
  uint64_t end_ = 0;
};

}  // namespace mk::bench

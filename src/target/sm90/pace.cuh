// SPDX-License-Identifier: MIT
// target/sm90/pace.cuh — how fast a machine's copies to other ranks may be: as fast as they are, or paced.
//
// A policy of Sm90Machine.  NoPace is empty and the compiler leaves nothing of it.  PacedLink is for
// benchmarks: all workers of a rank share its link's word; a copy reserves its time before it starts and
// is published no earlier than the end of it.
#pragma once

#include <cstdint>
#include <cuda/atomic>

#include "base/pace.h"
#include "target/sm90/ptx.cuh"

namespace mk::sm90 {

struct NoPace {
  struct Setting {};
  __device__ explicit NoPace(const Setting& = {}) {}

  __device__ void charge(uint64_t) const {}
  __device__ void wait() const {}
  __device__ void leave() const {}

  static constexpr bool kServesPuts = false;
};

class PacedLink {
 public:
  using Setting = LinkPace;

  __device__ explicit PacedLink(const LinkPace& pace) : pace_(pace) {}

  // Before the copy of these bytes.
  __device__ void charge(uint64_t bytes) {
    // Relaxed: the word orders nothing, and only the workers of this GPU look at it.
    const cuda::atomic_ref<uint64_t, cuda::thread_scope_device> free_at(*pace_.free_at);
    uint64_t seen = free_at.load(cuda::memory_order_relaxed);
    do {
      end_ = reserve(clock_ns(), seen, bytes, pace_.ns_per_byte).end;
    } while (!free_at.compare_exchange_weak(seen, end_, cuda::memory_order_relaxed));
  }

  // Before the release that publishes them.  Ends by itself: what is reserved is a span of time.
  __device__ void wait() const {
    while (clock_ns() < end_) {
    }
  }

  static constexpr bool kServesPuts = false;
  __device__ void leave() const {}

 private:
  LinkPace pace_;
  uint64_t end_ = 0;
};

}  // namespace mk::sm90

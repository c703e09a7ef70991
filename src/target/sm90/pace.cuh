// SPDX-License-Identifier: MIT
// target/sm90/pace.cuh — the hook by which a benchmark slows a rank's links down; here it does nothing.
//
// A policy of Sm90Machine and of the kernels.  NoPace is empty, so the compiler removes it.  Benchmarks have another
// (bench/paced_link.cuh).
#pragma once

#include <cstdint>

namespace mk::sm90 {

struct NoPace {
  struct Setting {};
  static constexpr bool kServesPuts = false;  // true: a spare warp of each rank calls serve_puts(pieces, until_left)

  __device__ explicit NoPace(const Setting& = {}) {}

  __device__ void charge(uint64_t) const {}  // before a copy of so many bytes to another rank
  __device__ void wait() const {}            // before the release that publishes it
  __device__ void leave() const {}           // a worker's last act
};

}  // namespace mk::sm90

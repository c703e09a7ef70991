// SPDX-License-Identifier: MIT
// target/sm90/values_of.cuh — the lists of values (core/value_list.h) of the sm90 machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/crew.h"
#include "target/sm90/warp_crew.cuh"

namespace mk::sm90 {

template <Crew C>
class ValuesOf;

// A value in each lane.  All lanes index it alike.
template <>
class ValuesOf<WarpCrew> {
 public:
  ValuesOf() = default;
  __device__ ValuesOf(const std::byte* first, int count, uint64_t stride) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane < count) mine_ = *reinterpret_cast<const volatile uint32_t*>(first + lane * stride);
  }
  __device__ explicit ValuesOf(uint32_t mine) : mine_(mine) {}
  __device__ uint32_t operator[](int i) const { return __shfl_sync(0xffffffffu, mine_, i); }
  __device__ uint32_t own(int) const { return mine_; }
  template <class Is>
  __device__ int count_if(int some, const Is& is) const {
    return __popc(__ballot_sync(0xffffffffu, static_cast<int>(threadIdx.x) % 32 < some && is(mine_)));
  }

 private:
  uint32_t mine_ = 0;
};

// One thread reads each when it is asked for.
template <>
class ValuesOf<SoloCrew> {
 public:
  __device__ ValuesOf(const std::byte* first, int, uint64_t stride) : first_(first), stride_(stride) {}
  __device__ uint32_t operator[](int i) const {
    return *reinterpret_cast<const volatile uint32_t*>(first_ + i * stride_);
  }

 private:
  const std::byte* first_;
  uint64_t stride_;
};

}  // namespace mk::sm90

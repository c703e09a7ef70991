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

// The for_each_key (core/for_each_key.h) of a warp: a lane for each.
template <class KeyOf, class Visit>
__device__ void for_each_key_of_lanes(int count, const KeyOf& key_of, const Visit& visit) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t key = lane < count ? key_of(lane) : 0;
  for (uint32_t left = __ballot_sync(0xffffffffu, lane < count); left != 0;) {
    const uint32_t next = __shfl_sync(0xffffffffu, key, __ffs(static_cast<int>(left)) - 1);
    const uint32_t same = __ballot_sync(0xffffffffu, lane < count && key == next);
    visit(next, __popc(same));
    left &= ~same;
  }
}

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

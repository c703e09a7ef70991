// SPDX-License-Identifier: MIT
// target/sm90/vector.cuh — eight elements of 16 bits as sums in fp32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "target/sm90/epilogue.cuh"

namespace mk::sm90 {

template <class Element>
struct Vector {
  float values[8] = {};

  __device__ void add(const uint4& bits) {
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = unpack_pair<Element>(words[i]);
      values[2 * i] += pair.x;
      values[2 * i + 1] += pair.y;
    }
  }
  __device__ uint4 rounded() const {
    return {pack<Element>(values[0], values[1]), pack<Element>(values[2], values[3]),
            pack<Element>(values[4], values[5]), pack<Element>(values[6], values[7])};
  }
};

}  // namespace mk::sm90

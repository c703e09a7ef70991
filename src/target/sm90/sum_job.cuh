// SPDX-License-Identifier: MIT
// target/sm90/sum_job.cuh — a block adds images up: fp32, in the order given, rounded once.
//
// A thread has kInHand chunks of 16 bytes in hand, so that so many loads of an image are under way.  Reads go
// past the L1 cache: others have written what is read, during this launch.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "target/sm90/epilogue.cuh"

namespace mk::sm90 {

// Images of one tile at equal distances.
struct ImageRow {
  const std::byte* first = nullptr;
  uint64_t stride = 0;  // bytes
  int count = 0;
};

// Eight elements in fp32.
template <class Element>
struct Chunk {
  float values[8] = {};

  __device__ void add(const uint4& bits) {
    using Pair = std::conditional_t<std::is_same_v<Element, __half>, __half2, __nv_bfloat162>;
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = unpack(reinterpret_cast<const Pair&>(words[i]));
      values[2 * i] += pair.x;
      values[2 * i + 1] += pair.y;
    }
  }
  __device__ void add(const Chunk& other) {
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] += other.values[i];
  }
  __device__ uint4 rounded() const {
    return {pack<Element>(values[0], values[1]), pack<Element>(values[2], values[3]),
            pack<Element>(values[4], values[5]), pack<Element>(values[6], values[7])};
  }
};

// What a thread of the block has in hand of a tile: chunks first, first + threads, …
template <class Element>
class Handful {
 public:
  static constexpr int kInHand = 4;

  __device__ Handful(int first, int chunks) : first_(first), chunks_(chunks) {}

  __device__ void add(const std::byte* image) {
    uint4 bits[kInHand];
    load(image, bits);
    add(bits);
  }
  // Two images at a time are under way.
  __device__ void add(const ImageRow& images) {
    const std::byte* image = images.first;
    int left = images.count;
    for (; left >= 2; left -= 2, image += 2 * images.stride) {
      uint4 bits[2][kInHand];
      load(image, bits[0]);
      load(image + images.stride, bits[1]);
      add(bits[0]);
      add(bits[1]);
    }
    if (left == 1) add(image);
  }
  __device__ void add(const Handful& other) {
#pragma unroll
    for (int i = 0; i < kInHand; ++i) sums_[i].add(other.sums_[i]);
  }

  // write(chunk, bits)
  template <class Write>
  __device__ void write(Write&& write) const {
#pragma unroll
    for (int i = 0; i < kInHand; ++i) {
      if (at(i) < chunks_) write(at(i), sums_[i].rounded());
    }
  }

 private:
  __device__ void load(const std::byte* image, uint4 (&bits)[kInHand]) const {
#pragma unroll
    for (int i = 0; i < kInHand; ++i) {
      bits[i] = at(i) < chunks_ ? __ldcg(reinterpret_cast<const uint4*>(image) + at(i)) : uint4{};
    }
  }
  __device__ void add(const uint4 (&bits)[kInHand]) {
#pragma unroll
    for (int i = 0; i < kInHand; ++i) sums_[i].add(bits[i]);
  }
  __device__ int at(int i) const { return first_ + i * static_cast<int>(blockDim.x); }

  int first_;
  int chunks_;
  Chunk<Element> sums_[kInHand];
};

// Calls sum(handful) and then hands its chunks to write, for a whole tile; every thread of the block calls this.
template <class Element, class Sum, class Write>
__device__ void sum_tile(int chunks, Sum&& sum, Write&& write) {
  const int step = static_cast<int>(blockDim.x) * Handful<Element>::kInHand;
  for (int first = static_cast<int>(threadIdx.x); first < chunks; first += step) {
    Handful<Element> sums(first, chunks);
    sum(sums);
    sums.write(write);
  }
}

// The sum of `others`, where the sum of `own` stands at `position` among them.
template <class Element>
__device__ void add_nodes(Handful<Element>& sums, Handful<Element>& own_sums, const ImageRow& own,
                          const ImageRow& others, int position) {
  for (int i = 0; i < own.count; ++i) own_sums.add(own.first + i * own.stride);  // two at a time would spill
  for (int node = 0; node <= others.count; ++node) {
    if (node == position) {
      sums.add(own_sums);
    } else {
      sums.add(others.first + (node < position ? node : node - 1) * others.stride);
    }
  }
}

}  // namespace mk::sm90

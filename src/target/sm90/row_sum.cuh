// SPDX-License-Identifier: MIT
// target/sm90/row_sum.cuh — a warp adds rows that lie anywhere: fp32, in the order given, rounded once.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "target/sm90/vector.cuh"

namespace mk::sm90 {

// All lanes call each function.  kRows × kVectors vectors are on their way to a lane at once.
template <class Element, int kRows, int kVectors>
class RowSum {
 public:
  static constexpr int kMostRows = 96;  // and no more than that

  __device__ void clear() { count_ = 0; }

  // What lies there is read by write().
  __device__ void add(const std::byte* row) {
#pragma unroll
    for (int i = 0; i < kMostRows / 32; ++i) {
      if (count_ == 32 * i + lane()) rows_[i] = row;
    }
    ++count_;
  }

  // `bytes` of each row, a multiple of 16.
  __device__ void write(std::byte* to, uint64_t bytes) const {
    const auto vectors = static_cast<int>(bytes / sizeof(uint4));
    for (int first = lane(); first - lane() < vectors; first += 32 * kVectors) {
      Vector<Element> sums[kVectors];
      for (int row = 0; row < count_; row += kRows) add_some(sums, row, first, vectors);
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        if (first + 32 * i < vectors) reinterpret_cast<uint4*>(to)[first + 32 * i] = sums[i].rounded();
      }
    }
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  __device__ const uint4* row_at(int row) const {
    const std::byte* const own = row < 32 ? rows_[0] : row < 64 ? rows_[1] : rows_[2];
    return reinterpret_cast<const uint4*>(__shfl_sync(0xffffffffu, reinterpret_cast<uint64_t>(own), row % 32));
  }

  __device__ void add_some(Vector<Element> (&sums)[kVectors], int row, int first, int vectors) const {
    // Behind the last row and the last vector the last one is read again: with loads that depend on a condition, the
    // compiler waits for some before it issues the others.
    uint4 bits[kRows][kVectors];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint4* const from = row_at(min_of(row + r, count_ - 1));
#pragma unroll
      for (int i = 0; i < kVectors; ++i) bits[r][i] = __ldcg(from + min_of(first + 32 * i, vectors - 1));
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        if (row + r < count_) sums[i].add(bits[r][i]);
      }
    }
  }

  int count_ = 0;
  const std::byte* rows_[kMostRows / 32];  // row i is lane i % 32's; nothing before add
};

}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// target/sm90/row_sum.cuh — a warp adds rows that lie anywhere: fp32, in the order given, rounded once.
//
//   RowSum     through registers, for warps beside a GEMM, which have no shared memory
//   PieceSum   through a worker's buffer in shared memory: more is under way
#pragma once

#include <cstdint>

#include "base/math.h"
#include "target/sm90/sum_job.cuh"
#include "target/sm90/vector.cuh"

namespace mk::sm90 {

constexpr int kMostSumRows = 96;

// Rows to add, by their addresses.  All lanes call each function.
class SumRows {
 public:
  __device__ void clear() { count_ = 0; }
  __device__ void add(const std::byte* row) {
#pragma unroll
    for (int i = 0; i < kMostSumRows / 32; ++i) {
      if (count_ == 32 * i + lane()) rows_[i] = row;
    }
    ++count_;
  }

 protected:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ int count() const { return count_; }
  __device__ const std::byte* row_at(int row) const {
    const std::byte* const own = row < 32 ? rows_[0] : row < 64 ? rows_[1] : rows_[2];
    return reinterpret_cast<const std::byte*>(__shfl_sync(0xffffffffu, reinterpret_cast<uint64_t>(own), row % 32));
  }

 private:
  int count_ = 0;
  const std::byte* rows_[kMostSumRows / 32];  // row i is lane i % 32's; nothing before add
};

// kRows × kVectors vectors are on their way to a lane at once.
template <class Element, int kRows, int kVectors>
class RowSum : public SumRows {
 public:
  // `bytes` of each row, a multiple of 16.
  __device__ void write(std::byte* to, uint64_t bytes) const {
    const auto vectors = static_cast<int>(bytes / sizeof(uint4));
    for (int first = lane(); first - lane() < vectors; first += 32 * kVectors) {
      Vector<Element> sums[kVectors];
      for (int row = 0; row < count(); row += kRows) add_some(sums, row, first, vectors);
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        if (first + 32 * i < vectors) reinterpret_cast<uint4*>(to)[first + 32 * i] = sums[i].rounded();
      }
    }
  }

 private:
  __device__ void add_some(Vector<Element> (&sums)[kVectors], int row, int first, int vectors) const {
    // Behind the last row and the last vector the last one is read again: with loads that depend on a condition, the
    // compiler waits for some before it issues the others.
    uint4 bits[kRows][kVectors];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const auto* const from = reinterpret_cast<const uint4*>(row_at(min_of(row + r, count() - 1)));
#pragma unroll
      for (int i = 0; i < kVectors; ++i) bits[r][i] = __ldcg(from + min_of(first + 32 * i, vectors - 1));
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        if (row + r < count()) sums[i].add(bits[r][i]);
      }
    }
  }
};

// At least one row.  The sum has left the buffer when the leader's bulk copies have.
template <class Element>
class PieceSum : public SumRows {
 public:
  // Whose buffer so many pieces went through before.
  __device__ PieceSum(const BulkPieces& pieces, uint32_t copied) : job_(pieces, copied) {}

  __device__ void write(std::byte* to, uint64_t bytes) {
    job_.run(
        count(), static_cast<uint32_t>(bytes), [&](int row) { return row_at(row); },
        [&](std::byte* piece, uint32_t first, uint32_t some) {
          if (is_one_lane()) ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, to + first, piece, some);
        });
  }

 private:
  SumJob<Element, WhoAsks::kAllLanes> job_;
};

// Of a warp that never sums.
struct NoSum {};

}  // namespace mk::sm90

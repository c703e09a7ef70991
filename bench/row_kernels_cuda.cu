// SPDX-License-Identifier: MIT
// bench/row_kernels_cuda.cu — see row_kernels.h.
#include <cuda_bf16.h>

#include "base/cuda_api.h"
#include "base/math.h"
#include "bench/row_kernels.h"

namespace mk::bench {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kMostBlocks = 2112;  // sixteen an SM of a Hopper GPU
constexpr int kVectorBytes = 16;
constexpr int kAtOnce = 4;  // vectors that a thread has under way

struct alignas(kVectorBytes) Eight {
  __nv_bfloat16 of[8];
};

// A block for each row.
__global__ void __launch_bounds__(kThreads) move_kernel(const RowMove* moves, int64_t count, int vectors) {
  for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const auto* const from = reinterpret_cast<const uint4*>(moves[i].from);
    auto* const to = reinterpret_cast<uint4*>(moves[i].to);
    for (int first = static_cast<int>(threadIdx.x); first < vectors; first += kAtOnce * kThreads) {
      uint4 bits[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (first + j * kThreads < vectors) bits[j] = __ldcs(from + first + j * kThreads);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (first + j * kThreads < vectors) to[first + j * kThreads] = bits[j];
      }
    }
  }
}

// A vector of activations a thread.
__global__ void __launch_bounds__(kThreads)
    swiglu_kernel(const Eight* gates, Eight* activations, int64_t count, int vectors) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x; at < count; at += step) {
    const int64_t row = at / vectors;
    const Eight gate = gates[row * 2 * vectors + at % vectors];
    const Eight up = gates[(row * 2 + 1) * vectors + at % vectors];
    Eight made;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float g = __bfloat162float(gate.of[i]);
      made.of[i] = __float2bfloat16_rn(g / (1.0f + __expf(-g)) * __bfloat162float(up.of[i]));
    }
    activations[at] = made;
  }
}

__device__ void add(float (&sum)[8], const Eight& values, float weight) {
#pragma unroll
  for (int i = 0; i < 8; ++i) sum[i] += weight * __bfloat162float(values.of[i]);
}

// A block for each row.
__global__ void __launch_bounds__(kThreads)
    sum_kernel(const RowSum* sums, int64_t count, const RowTerm* terms, int vectors) {
  for (int64_t row = blockIdx.x; row < count; row += gridDim.x) {
    const RowSum own = sums[row];
    const RowTerm* const of = terms + own.first;
    const int num_terms = static_cast<int>(own.count);
    for (int at = static_cast<int>(threadIdx.x); at < vectors; at += kThreads) {
      float sum[8] = {};
      int term = 0;
      for (; term + kAtOnce <= num_terms; term += kAtOnce) {
        Eight values[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) values[j] = reinterpret_cast<const Eight*>(of[term + j].row)[at];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) add(sum, values[j], of[term + j].weight);
      }
      for (; term < num_terms; ++term) add(sum, reinterpret_cast<const Eight*>(of[term].row)[at], of[term].weight);
      Eight rounded;
#pragma unroll
      for (int i = 0; i < 8; ++i) rounded.of[i] = __float2bfloat16_rn(sum[i]);
      reinterpret_cast<Eight*>(own.to)[at] = rounded;
    }
  }
}

unsigned blocks_for(int64_t wanted) { return static_cast<unsigned>(min_of(wanted, kMostBlocks)); }

}  // namespace

void queue_moves(std::span<const RowMove> moves, int64_t row_bytes, Stream stream) {
  if (moves.empty()) return;
  const int64_t count = std::ssize(moves);
  move_kernel<<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      moves.data(), count, static_cast<int>(row_bytes / kVectorBytes));
  check_cuda(cudaGetLastError(), "move rows");
}

void queue_swiglu(const void* gates, void* activations, int64_t rows, int64_t inter, Stream stream) {
  if (rows == 0) return;
  const int64_t vectors = inter / 8;
  swiglu_kernel<<<blocks_for(ceil_div<int64_t>(rows * vectors, kThreads)), kThreads, 0,
                  static_cast<cudaStream_t>(stream)>>>(
      static_cast<const Eight*>(gates), static_cast<Eight*>(activations), rows * vectors, static_cast<int>(vectors));
  check_cuda(cudaGetLastError(), "activate rows");
}

void queue_weighted_sums(std::span<const RowSum> sums, const RowTerm* terms, int64_t row_bytes, Stream stream) {
  if (sums.empty()) return;
  const int64_t count = std::ssize(sums);
  sum_kernel<<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      sums.data(), count, terms, static_cast<int>(row_bytes / kVectorBytes));
  check_cuda(cudaGetLastError(), "sum weighted rows");
}

}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// tools/data_kernels.cuh — what the kernels of the data engine and of references share.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "base/cuda_api.h"
#include "base/math.h"
#include "judge.h"

namespace mk::tools {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 4096;

__device__ inline double to_double(float x) { return x; }
__device__ inline double to_double(__half x) { return __half2float(x); }
__device__ inline double to_double(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ T rounded_to(float x);
template <>
__device__ inline float rounded_to<float>(float x) {
  return x;
}
template <>
__device__ inline __half rounded_to<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 rounded_to<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// A block of 16 × 16 threads makes tiles of 64 × 64, 4 × 4 a thread, from panels 16 deep.
constexpr int kSide = 64;
constexpr int kDepth = 16;
constexpr int kPerThread = 4;
constexpr int kStride = kSide / kPerThread;  // between a thread's rows, and between its columns

// One atomic a warp and number.
__device__ inline void add_to_total(Tally tally, Tally* total) {
  constexpr unsigned kWholeWarp = 0xffffffffu;
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    Tally other;
    other.wrong = __shfl_down_sync(kWholeWarp, tally.wrong, lanes);
    other.difference = __shfl_down_sync(kWholeWarp, tally.difference, lanes);
    other.reference = __shfl_down_sync(kWholeWarp, tally.reference, lanes);
    other.tolerance = __shfl_down_sync(kWholeWarp, tally.tolerance, lanes);
    tally.add(other);
  }
  if (threadIdx.x % 32 != 0) return;
  atomicAdd(&total->wrong, tally.wrong);
  atomicAdd(&total->difference, tally.difference);
  atomicAdd(&total->reference, tally.reference);
  atomicAdd(&total->tolerance, tally.tolerance);
}

// Calls work.operator()<T>() with the tensor's element type.
template <class Work>
void with_device_type(DType dtype, const Work& work) {
  switch (dtype) {
    case DType::kBf16: return work.template operator()<__nv_bfloat16>();
    case DType::kFp16: return work.template operator()<__half>();
    case DType::kFp32: return work.template operator()<float>();
  }
}

inline unsigned blocks_for(int64_t pieces) { return static_cast<unsigned>(min_of(pieces, kMostBlocks)); }

// Everything runs on the default stream, which the streams of a World do not wait for.
inline void finish(const char* attempted) {
  check_cuda(cudaGetLastError(), attempted);
  check_cuda(cudaStreamSynchronize(cudaStreamLegacy), attempted);
}

}  // namespace mk::tools

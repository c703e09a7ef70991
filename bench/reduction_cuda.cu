// SPDX-License-Identifier: MIT
// bench/reduction_cuda.cu — see reduction.h.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "base/cuda_api.h"
#include "base/math.h"
#include "bench/reduction.h"
#include "mkernel/error.h"

namespace mk::bench {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1056;  // eight an SM of a Hopper GPU

struct Terms {
  const void* of[kMostTerms];
  int count;
};

__device__ float to_float(__half x) { return __half2float(x); }
__device__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ T rounded_to(float x);
template <>
__device__ __half rounded_to<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __nv_bfloat16 rounded_to<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

template <class T>
struct alignas(16) Eight {
  T of[8];
};

template <class T>
__global__ void __launch_bounds__(kThreads) sum_kernel(Terms terms, Eight<T>* out, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x; at < count; at += step) {
    const Eight<T> first = static_cast<const Eight<T>*>(terms.of[0])[at];
    float sums[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i] = to_float(first.of[i]);
    for (int term = 1; term < terms.count; ++term) {
      const Eight<T> values = static_cast<const Eight<T>*>(terms.of[term])[at];
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[i] += to_float(values.of[i]);
    }
    Eight<T> rounded;
#pragma unroll
    for (int i = 0; i < 8; ++i) rounded.of[i] = rounded_to<T>(sums[i]);
    out[at] = rounded;
  }
}

// One element a thread, straight from the definition.
template <class T>
__global__ void unlike_kernel(Terms partials, WorldShape world, int owner, const T* out, int64_t count,
                              unsigned long long* unlike) {
  const auto node_sum = [&](int node, int64_t at) {
    float sum = 0;
    for (int local = 0; local < world.ranks; ++local) {
      const float value = to_float(static_cast<const T*>(partials.of[world.rank_at(node, local)])[at]);
      sum = local == 0 ? value : sum + value;
    }
    return sum;
  };
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count; at += step) {
    const int home = world.node_of(owner);
    float sum = node_sum(home, at);
    for (int node = 0; node < world.nodes; ++node) {
      if (node != home) sum += to_float(rounded_to<T>(node_sum(node, at)));
    }
    const T expected = rounded_to<T>(sum);
    const T found = out[at];
    const bool same = reinterpret_cast<const uint16_t&>(expected) == reinterpret_cast<const uint16_t&>(found);
    if (!same || found != found) atomicAdd(unlike, 1ull);
  }
}

Terms collected(std::span<const void* const> pointers) {
  if (pointers.size() > kMostTerms) throw Error(ErrorCode::kInvalidArgument, "a sum has more terms than it takes");
  Terms terms{};
  terms.count = static_cast<int>(pointers.size());
  for (size_t i = 0; i < pointers.size(); ++i) terms.of[i] = pointers[i];
  return terms;
}

unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>(min_of(ceil_div<int64_t>(threads, kThreads), kMostBlocks));
}

template <class T>
void queue_sum_of(const Terms& terms, void* out, int64_t count, cudaStream_t stream) {
  const int64_t eights = count / 8;
  sum_kernel<T><<<blocks_for(eights), kThreads, 0, stream>>>(terms, static_cast<Eight<T>*>(out), eights);
}

}  // namespace

void queue_sum(DType dtype, std::span<const void* const> pointers, void* out, int64_t count, Stream stream) {
  const Terms terms = collected(pointers);
  if (count == 0) return;
  if (dtype == DType::kBf16) {
    queue_sum_of<__nv_bfloat16>(terms, out, count, static_cast<cudaStream_t>(stream));
  } else {
    queue_sum_of<__half>(terms, out, count, static_cast<cudaStream_t>(stream));
  }
  check_cuda(cudaGetLastError(), "sum partial results");
}

int64_t count_unlike(DType dtype, const ReducedShard& shard) {
  const Terms partials = collected(shard.partials);
  unsigned long long* unlike = nullptr;
  check_cuda(cudaMalloc(&unlike, sizeof(*unlike)), "allocate a counter");
  unsigned long long found = 0;
  cudaError_t result = cudaMemsetAsync(unlike, 0, sizeof(*unlike), cudaStreamLegacy);
  if (result == cudaSuccess) {
    const unsigned blocks = blocks_for(shard.count);
    if (dtype == DType::kBf16) {
      unlike_kernel<<<blocks, kThreads, 0, cudaStreamLegacy>>>(
          partials, shard.world, shard.owner, static_cast<const __nv_bfloat16*>(shard.out), shard.count, unlike);
    } else {
      unlike_kernel<<<blocks, kThreads, 0, cudaStreamLegacy>>>(
          partials, shard.world, shard.owner, static_cast<const __half*>(shard.out), shard.count, unlike);
    }
    result = cudaGetLastError();
  }
  if (result == cudaSuccess) result = cudaMemcpy(&found, unlike, sizeof(found), cudaMemcpyDeviceToHost);
  cudaFree(unlike);
  check_cuda(result, "compare a reduced shard");
  return static_cast<int64_t>(found);
}

}  // namespace mk::bench

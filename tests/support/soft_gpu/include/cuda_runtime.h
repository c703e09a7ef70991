// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/include/cuda_runtime.h — CUDA for g++: the toolkit's own declarations, and the language of
// device code in terms of the software GPU.
//
// Stands before the toolkit's folder on the compiler's line.
#pragma once

#include_next <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "tests/support/soft_gpu/soft_device.h"

// The language.  A variable in shared memory is one of the host's thread, which runs one block at a time.
#undef __shared__
#define __shared__ thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__
#undef __forceinline__
#define __forceinline__ inline
#undef __noinline__
#define __noinline__
#undef __global__
#define __global__

// Read anew each time.
template <auto kOf>
struct SoftIndex {
  struct X {
    operator unsigned() const { return kOf().x; }
  } x;
  struct Y {
    operator unsigned() const { return kOf().y; }
  } y;
  struct Z {
    operator unsigned() const { return kOf().z; }
  } z;
};
inline constexpr SoftIndex<mk::soft_gpu::thread_index> threadIdx{};
inline constexpr SoftIndex<mk::soft_gpu::block_index> blockIdx{};
inline constexpr SoftIndex<mk::soft_gpu::block_size> blockDim{};
inline constexpr SoftIndex<mk::soft_gpu::grid_size> gridDim{};

// Launches.
#define cudaLaunchKernelEx ::mk::soft_gpu::launch_kernel_ex

namespace mk::soft_gpu {

// Every thread calls kernel(arguments…), with copies of them.
template <class Kernel, class Arguments>
void queue_call(const cudaLaunchConfig_t& config, std::string name, const Kernel& kernel, Arguments arguments) {
  unsigned cluster = 1;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == cudaLaunchAttributeClusterDimension) cluster = config.attrs[i].val.clusterDim.x;
  }
  queue_launch({.kernel = [kernel, kept = std::move(arguments)] { std::apply(kernel, kept); },
                .blocks = config.gridDim,
                .threads = config.blockDim,
                .shared_bytes = config.dynamicSmemBytes,
                .cluster = cluster,
                .name = std::move(name),
                .stream = config.stream});
}

template <class... Params, class... Args>
cudaError_t launch_kernel_ex(const cudaLaunchConfig_t* config, void (*kernel)(Params...), Args&&... args) {
  queue_call(*config, typeid(kernel).name(), kernel,
             std::tuple<std::remove_cv_t<Params>...>(std::forward<Args>(args)...));
  return cudaSuccess;
}

inline cudaLaunchConfig_t grid_config(dim3 blocks, dim3 threads, size_t shared_bytes, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return config;
}

// What translate.py makes of kernel<<<blocks, threads, shared_bytes, stream>>>: something to be called.
template <class Kernel>
auto on_grid(const char* name, const Kernel& kernel, dim3 blocks, dim3 threads, size_t shared_bytes = 0,
             cudaStream_t stream = nullptr) {
  return [=](auto... args) {
    queue_call(grid_config(blocks, threads, shared_bytes, stream), name, kernel, std::tuple(args...));
  };
}
template <class... Params>
auto on_grid(void (*kernel)(Params...), dim3 blocks, dim3 threads, size_t shared_bytes = 0,
             cudaStream_t stream = nullptr) {
  return [=](Params... args) {
    const cudaLaunchConfig_t config = grid_config(blocks, threads, shared_bytes, stream);
    launch_kernel_ex(&config, kernel, args...);
  };
}

}  // namespace mk::soft_gpu

// ---- functions of device code --------------------------------------------------------------------------

inline void __syncthreads() { mk::soft_gpu::sync_threads(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { mk::soft_gpu::exchange(mask, mk::soft_gpu::Exchange::kSync, 0); }
inline void __nanosleep(unsigned) { mk::soft_gpu::poll(); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

inline unsigned __ballot_sync(unsigned mask, int predicate) { return mk::soft_gpu::ballot(mask, predicate != 0); }
inline int __any_sync(unsigned mask, int predicate) { return mk::soft_gpu::ballot(mask, predicate != 0) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return mk::soft_gpu::ballot(mask, predicate == 0) == 0; }

template <class T>
T __shfl_sync(unsigned mask, T value, int lane) {
  return mk::soft_gpu::shuffle(mask, value, static_cast<unsigned>(lane) % 32);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return mk::soft_gpu::shuffle(mask, value, threadIdx.x % 32 ^ static_cast<unsigned>(lanes));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned lanes) {
  const unsigned own = threadIdx.x % 32;
  return mk::soft_gpu::shuffle(mask, value, own < lanes ? own : own - lanes);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes) {
  const unsigned own = threadIdx.x % 32;
  return mk::soft_gpu::shuffle(mask, value, own + lanes > 31 ? own : own + lanes);
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
  return mk::soft_gpu::reduce(mask, value, [](unsigned a, unsigned b) { return a + b; });
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
  return mk::soft_gpu::reduce(mask, value, [](unsigned a, unsigned b) { return a | b; });
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  return mk::soft_gpu::reduce(mask, value, [](unsigned a, unsigned b) { return std::max(a, b); });
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
  return mk::soft_gpu::reduce(mask, value, [](unsigned a, unsigned b) { return std::min(a, b); });
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  return mk::soft_gpu::matching(mask, static_cast<uint64_t>(value));
}

template <class T, class U>
T atomicAdd(T* word, U value) {
  return std::atomic_ref<T>(*word).fetch_add(static_cast<T>(value), std::memory_order_relaxed);
}
template <class T, class U>
T atomicExch(T* word, U value) {
  return std::atomic_ref<T>(*word).exchange(static_cast<T>(value), std::memory_order_relaxed);
}
template <class T, class U>
T atomicMax(T* word, U value) {
  T seen = std::atomic_ref<T>(*word).load(std::memory_order_relaxed);
  const T wanted = static_cast<T>(value);
  while (seen < wanted && !std::atomic_ref<T>(*word).compare_exchange_weak(seen, wanted)) {
  }
  return seen;
}

template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
void __stcg(T* to, const T& value) {
  *to = value;
}

inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __popcll(unsigned long long bits) { return std::popcount(bits); }
inline int __ffs(int bits) { return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1; }
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __expf(float x) { return std::exp(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }

template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) std::common_type_t<A, B> min(A a, B b) {
  return std::min<std::common_type_t<A, B>>(a, b);
}
template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) std::common_type_t<A, B> max(A a, B b) {
  return std::max<std::common_type_t<A, B>>(a, b);
}

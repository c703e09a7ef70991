// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/include/target/sm90/ptx.cuh — the same functions as
// target/sm90/ptx.cuh, with the same guarantees and no more.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <cuda/atomic>
#include <cuda/ptx>
#include <type_traits>

#include "tests/support/soft_gpu/soft_copies.h"
#include "tests/support/soft_gpu/soft_device.h"

namespace mk::sm90 {

namespace ptx = cuda::ptx;

inline uint32_t shared_address(const void* pointer) { return soft_gpu::shared_address(pointer); }
inline void* shared_pointer(uint32_t address) { return soft_gpu::shared_pointer(address); }
constexpr size_t kSwizzleAtom = 1024;
inline std::byte* block_memory() { return soft_gpu::block_memory(); }
inline uint64_t clock_ns() { return soft_gpu::clock_ns(); }

// Threads of a block run one after the other, and blocks on a machine that keeps the order of stores.
inline void rows_before_async_reads() {}
inline void shared_stores_before_tma() {}
inline void shared_stores_before_wgmma() {}
inline void barriers_before_use() {}

inline int block_again() { return static_cast<int>(blockIdx.x); }
inline int thread_again() { return static_cast<int>(threadIdx.x); }
inline bool is_one_lane() { return soft_gpu::elect(); }
template <class... Values>
void compute_again(Values&...) {}

inline void wait_phase(uint64_t* barrier, uint32_t parity) { soft_gpu::wait_for_barrier(barrier, parity); }
template <class Name>
void sync_at(Name barrier, int threads) {
  static_assert(std::is_enum_v<Name>);
  soft_gpu::sync_named(static_cast<unsigned>(barrier), static_cast<unsigned>(threads));
}
template <class Name>
void arrive_at(Name barrier, int threads) {
  static_assert(std::is_enum_v<Name>);
  soft_gpu::arrive_named(static_cast<unsigned>(barrier), static_cast<unsigned>(threads));
}
inline bool all_at(int barrier, int threads, bool mine) {
  return soft_gpu::sync_named_and(static_cast<unsigned>(barrier), static_cast<unsigned>(threads), mine);
}

inline void arrive_in_cluster(uint64_t* barrier, uint32_t block) { soft_gpu::arrive_in_cluster(barrier, block); }
inline uint32_t block_in_cluster() { return soft_gpu::block_in_cluster(); }
inline void arrive_at_cluster() { soft_gpu::arrive_at_cluster(); }
inline void wait_for_cluster() { soft_gpu::wait_for_cluster(); }

inline void prefetch_tensor_map(const void*) {}
inline void store_result(const void* map, const int32_t (&at)[3], const void* box) {
  soft_gpu::store_box(map, at, 3, box, soft_gpu::Reduce::kNone);
}

template <int kRegisters>
void give_registers() {}
template <int kRegisters>
void take_registers() {}

inline float exp2_of(float x) { return std::exp2(x); }
inline uint32_t word_of(float x) { return std::bit_cast<uint32_t>(x); }

// Lane l's address is that of row l % 8 of matrix l / 8; a lane holds two neighbours of row l / 4 of each.
inline void store_matrices(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t words[4] = {m0, m1, m2, m3};
  for (uint32_t matrix = 0; matrix < 4; ++matrix) {
    const uint32_t row = soft_gpu::shuffle(0xffffffffu, address, matrix * 8 + lane / 4);
    *static_cast<uint32_t*>(soft_gpu::shared_pointer(row + lane % 4 * 4)) = words[matrix];
  }
  soft_gpu::exchange(0xffffffffu, soft_gpu::Exchange::kSync, 0);
}

struct DeviceAtomics {
  static void add_release(uint64_t* word, uint64_t value) {
    std::atomic_ref<uint64_t>(*word).fetch_add(value, std::memory_order_release);
  }
};

struct SystemAtomics {
  using Word = std::atomic_ref<uint64_t>;

  static uint64_t load_acquire(const uint64_t* word) { return look(word, std::memory_order_acquire); }
  static uint64_t load_relaxed(const uint64_t* word) { return look(word, std::memory_order_relaxed); }
  static void store_release(uint64_t* word, uint64_t value) { Word(*word).store(value, std::memory_order_release); }
  static void store_relaxed(uint64_t* word, uint64_t value) { Word(*word).store(value, std::memory_order_relaxed); }
  static void fence_release() { std::atomic_thread_fence(std::memory_order_release); }
  static uint64_t add_release(uint64_t* word, uint64_t value) {
    return Word(*word).fetch_add(value, std::memory_order_release);
  }
  static uint64_t add_acq_rel(uint64_t* word, uint64_t value) {
    return Word(*word).fetch_add(value, std::memory_order_acq_rel);
  }
  static uint64_t add_relaxed(uint64_t* word, uint64_t value) {
    return Word(*word).fetch_add(value, std::memory_order_relaxed);
  }
  static void tell_relaxed(uint64_t* word, uint64_t value) { add_relaxed(word, value); }
  static void raise_relaxed(uint64_t* word, uint64_t value) {
    uint64_t seen = Word(*word).load(std::memory_order_relaxed);
    while (seen < value && !Word(*word).compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
  }
  static bool replace_relaxed(uint64_t* word, uint64_t expected, uint64_t value) {
    return Word(*word).compare_exchange_strong(expected, value, std::memory_order_relaxed);
  }

 private:
  static uint64_t look(const uint64_t* word, std::memory_order order) {
    soft_gpu::poll();
    return Word(*const_cast<uint64_t*>(word)).load(order);
  }
};

}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// target/sm90/ptx.cuh — every inline PTX instruction of the project.
//
// What CCCL's cuda::ptx has is used from there; here are only instructions it lacks, and names by
// purpose for the fences.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cuda/atomic>
#include <cuda/ptx>
#include <type_traits>

#include "mkernel/types.h"

namespace mk::sm90 {

namespace ptx = cuda::ptx;

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline uint64_t clock_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// ---- fences, named by what they order -------------------------------------------------------------

// Rows others have written, seen through a signal, before the copy engine or tensor cores read them.
__device__ inline void rows_before_async_reads() { ptx::fence_proxy_async(ptx::space_global); }

// Ordinary stores to shared memory before a TMA store reads them.
__device__ inline void shared_stores_before_tma() { ptx::fence_proxy_async(ptx::space_shared); }

// Barriers this thread has initialised, before any thread or the copy engine uses them.
__device__ inline void barriers_before_use() { ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster); }

// ---- threads ----------------------------------------------------------------------------------------

// True in one lane of a whole warp, always the same.  Unlike a comparison of thread numbers it tells the compiler
// that one thread is left, so that TMA and barrier instructions need no loop over lanes.
__device__ inline bool is_one_lane() {
  uint32_t is_one;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}\n" : "=r"(is_one));
  return is_one != 0;
}

// ---- barriers --------------------------------------------------------------------------------------

// Blocks until the phase of `parity` has completed.  Only for barriers whose arrivals depend on nothing
// outside the block; what depends on other ranks is waited for by the machine, with a deadline.
__device__ inline void wait_phase(uint64_t* barrier, uint32_t parity) {
  while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}

// Arrives at the same barrier of another block of the cluster; pairs with wait_phase there.  It says that
// wgmmas have read shared memory, which no fence of ordinary accesses orders: so no cluster scope, which
// would cost a third of the kernel's speed.
__device__ inline void arrive_in_cluster(uint64_t* barrier, uint32_t block) {
  asm volatile(
      "{\n.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(shared_address(barrier)),
      "r"(block)
      : "memory");
}

__device__ inline uint32_t block_in_cluster() { return ptx::get_sreg_cluster_ctarank(); }

// After wait_for_cluster every thread of the cluster's blocks has come to arrive_at_cluster.  It makes nothing visible
// but what barriers_before_use did: a release would wait for the whole GPU's memory, at every launch.
__device__ inline void arrive_at_cluster() { ptx::barrier_cluster_arrive(ptx::sem_relaxed); }
__device__ inline void wait_for_cluster() { ptx::barrier_cluster_wait(); }

// Brings a tensor map near before the first copy asks for it.
__device__ inline void prefetch_tensor_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Sends a box out of shared memory to `at` of a tensor, as the first that the L2 may drop: operands that are read again
// stay in its place.
__device__ inline void store_result(const void* map, const int32_t (&at)[3], const void* box) {
  uint64_t drop_first;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(drop_first));
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%1, %2, %3}], [%4], %5;" ::"l"(map),
      "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(shared_address(box)), "l"(drop_first)
      : "memory");
}

// ---- registers -------------------------------------------------------------------------------------

template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- tensor cores ----------------------------------------------------------------------------------

__device__ inline void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most kPending committed groups are unfinished.
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// After wgmma_wait: keeps the compiler from reading sums before it.
template <int kCount>
__device__ inline void wgmma_results(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Describes an operand in shared memory, 128-byte swizzled; strides in bytes.
__device__ inline uint64_t wgmma_operand(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return kSwizzle128 | static_cast<uint64_t>(stride_bytes >> 4) << 32 |
         static_cast<uint64_t>(leading_bytes >> 4) << 16 | ((address & 0x3ffff) >> 4);
}

#define MK_ACC4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define MK_ACC16(d, i) MK_ACC4(d, i), MK_ACC4(d, i + 4), MK_ACC4(d, i + 8), MK_ACC4(d, i + 12)
#define MK_ACC32(d, i) MK_ACC16(d, i), MK_ACC16(d, i + 16)
#define MK_ACC_64(d) MK_ACC32(d, 0)
#define MK_ACC_128(d) MK_ACC32(d, 0), MK_ACC32(d, 32)
#define MK_ACC_192(d) MK_ACC32(d, 0), MK_ACC32(d, 32), MK_ACC32(d, 64)
#define MK_ACC_224(d) MK_ACC_192(d), MK_ACC16(d, 96)
#define MK_ACC_256(d) MK_ACC32(d, 0), MK_ACC32(d, 32), MK_ACC32(d, 64), MK_ACC32(d, 96)

#define MK_REGS_64                                                         \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MK_REGS_128                                                                  \
  MK_REGS_64                                                                         \
  ", "                                                                               \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MK_REGS_192                                                                  \
  MK_REGS_128                                                                        \
  ", "                                                                               \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define MK_REGS_224 \
  MK_REGS_192       \
  ", "              \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define MK_REGS_256 \
  MK_REGS_224       \
  ", "              \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// `a_at` … are the numbers of the operands after the sums.
#define MK_WGMMA(n, type, a_at, b_at, accumulate_at, transposed_at)                             \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #accumulate_at                              \
               ", 0;\n"                                                                         \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" MK_REGS_##n \
               "}, %" #a_at ", %" #b_at ", p, 1, 1, 0, %" #transposed_at ";\n}\n"               \
               : MK_ACC_##n(d)                                                                  \
               : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kTransposed))
#define MK_WGMMA_OF(type)                               \
  if constexpr (kN == 64) {                             \
    MK_WGMMA(64, type, 32, 33, 34, 35);                 \
  } else if constexpr (kN == 128) {                     \
    MK_WGMMA(128, type, 64, 65, 66, 67);                \
  } else if constexpr (kN == 192) {                     \
    MK_WGMMA(192, type, 96, 97, 98, 99);                \
  } else if constexpr (kN == 224) {                     \
    MK_WGMMA(224, type, 112, 113, 114, 115);            \
  } else {                                              \
    static_assert(kN == 256, "no wgmma of this width"); \
    MK_WGMMA(256, type, 128, 129, 130, 131);            \
  }

// d = a·b (+ d if `accumulate`): 64 × kN × 16, A with k contiguous; B with n contiguous if it lies as
// [K,N], with k contiguous if as [N,K].
template <class Element, int kN, BOrder kOrder>
__device__ inline void wgmma(float (&d)[kN / 2], uint64_t a, uint64_t b, bool accumulate) {
  constexpr int kTransposed = kOrder == BOrder::kKN ? 1 : 0;
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    MK_WGMMA_OF("bf16")
  } else {
    MK_WGMMA_OF("f16")
  }
}

#undef MK_WGMMA_OF
#undef MK_WGMMA
#undef MK_REGS_256
#undef MK_REGS_224
#undef MK_REGS_192
#undef MK_REGS_128
#undef MK_REGS_64
#undef MK_ACC_256
#undef MK_ACC_224
#undef MK_ACC_192
#undef MK_ACC_128
#undef MK_ACC_64
#undef MK_ACC32
#undef MK_ACC16
#undef MK_ACC4

// Stores four 8 × 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void store_matrices(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0), "r"(m1),
               "r"(m2), "r"(m3)
               : "memory");
}

// ---- flags -----------------------------------------------------------------------------------------

// The GPU's words for base/atomics.h, at system scope: peers, the host and NICs look on.
struct SystemAtomics {
  using Word = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>;

  __device__ static uint64_t load_acquire(const uint64_t* word) {
    return Word(*const_cast<uint64_t*>(word)).load(cuda::memory_order_acquire);
  }
  __device__ static uint64_t load_relaxed(const uint64_t* word) {
    return Word(*const_cast<uint64_t*>(word)).load(cuda::memory_order_relaxed);
  }
  __device__ static void store_release(uint64_t* word, uint64_t value) {
    Word(*word).store(value, cuda::memory_order_release);
  }
  __device__ static uint64_t add_release(uint64_t* word, uint64_t value) {
    return Word(*word).fetch_add(value, cuda::memory_order_release);
  }
  __device__ static uint64_t add_acq_rel(uint64_t* word, uint64_t value) {
    return Word(*word).fetch_add(value, cuda::memory_order_acq_rel);
  }
  __device__ static uint64_t add_relaxed(uint64_t* word, uint64_t value) {
    return Word(*word).fetch_add(value, cuda::memory_order_relaxed);
  }
};

}  // namespace mk::sm90

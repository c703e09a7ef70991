// SPDX-License-Identifier: MIT
// target/sm90/ptx.cuh — the inline PTX instructions of the project.
//
// What CCCL's cuda::ptx has is used from there; here are only instructions it lacks, and names by
// purpose for the fences.  The tensor cores' own are in wgmma.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <cuda/atomic>
#include <cuda/ptx>
#include <type_traits>

namespace mk::sm90 {

namespace ptx = cuda::ptx;

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void* shared_pointer(uint32_t address) { return __cvta_shared_to_generic(address); }

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

// Ordinary stores to shared memory before wgmmas read them.  Each writing thread calls it, then all meet at a barrier.
__device__ inline void shared_stores_before_wgmma() { ptx::fence_proxy_async(ptx::space_shared); }

// Barriers this thread has initialised, before any thread or the copy engine uses them.
__device__ inline void barriers_before_use() { ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster); }

// ---- threads ----------------------------------------------------------------------------------------

// The block's number and this thread's, read again by each call: what is computed from them, and seldom needed, is not
// kept in registers meanwhile.
__device__ inline int block_again() {
  int block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  return block;
}
__device__ inline int thread_again() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// True in one lane of a whole warp, always the same.  Unlike a comparison of thread numbers it tells the compiler
// that one thread is left, so that TMA and barrier instructions need no loop over lanes.
__device__ inline bool is_one_lane() {
  uint32_t is_one;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}\n" : "=r"(is_one));
  return is_one != 0;
}

// The compiler forgets what it knows of these: what is computed from them is worked out again, not kept in registers.
__device__ inline void compute_again(int& x, int& y) { asm volatile("" : "+r"(x), "+r"(y)); }

// ---- barriers --------------------------------------------------------------------------------------

// Blocks until the phase of `parity` has completed.  Only for barriers whose arrivals depend on nothing
// outside the block; what depends on other ranks is waited for by the machine, with a deadline.
__device__ inline void wait_phase(uint64_t* barrier, uint32_t parity) {
  while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}

// Barriers by name, for some of a block's warps.  A kernel names its own in an enum by purpose, with numbers from 1 to
// 15: 0 is __syncthreads.  A phase is over when `threads` threads, a multiple of 32, have come; those that sync wait
// for it, those that arrive do not.  It orders their ordinary accesses to memory, of those that arrive before those
// that sync. Whole warps call it.
template <class Name>
__device__ inline void sync_at(Name barrier, int threads) {
  static_assert(std::is_enum_v<Name>);
  asm volatile("bar.sync %0, %1;" ::"r"(static_cast<int>(barrier)), "r"(threads) : "memory");
}
template <class Name>
__device__ inline void arrive_at(Name barrier, int threads) {
  static_assert(std::is_enum_v<Name>);
  asm volatile("bar.arrive %0, %1;" ::"r"(static_cast<int>(barrier)), "r"(threads) : "memory");
}

// Whether all threads that come to a barrier, by its number, say yes: one answer for all of them.
__device__ inline bool all_at(int barrier, int threads, bool mine) {
  int all;
  asm volatile(
      "{\n.reg .pred p, q;\nsetp.ne.s32 p, %1, 0;\nbarrier.cta.red.and.pred q, %2, %3, p;\n"
      "selp.s32 %0, 1, 0, q;\n}\n"
      : "=r"(all)
      : "r"(static_cast<int>(mine)), "r"(barrier), "r"(threads)
      : "memory");
  return all != 0;
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

// ---- numbers -----------------------------------------------------------------------------------------

__device__ inline float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The bits of a sum.  A cast would be moved up to the wgmma that makes the sum, in front of the wait for it.
__device__ inline uint32_t word_of(float x) {
  uint32_t word;
  asm volatile("mov.b32 %0, %1;" : "=r"(word) : "f"(x));
  return word;
}

// ---- shared memory -----------------------------------------------------------------------------------

// Swizzled rows repeat after so many bytes: what TMA or wgmma swizzles begins at a multiple.
constexpr size_t kSwizzleAtom = 1024;

// What the launch gave the block, from its first byte on.
__device__ inline std::byte* block_memory() {
  extern __shared__ __align__(kSwizzleAtom) std::byte dynamic[];
  return dynamic;
}

// Stores four 8 × 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void store_matrices(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0), "r"(m1),
               "r"(m2), "r"(m3)
               : "memory");
}

// ---- flags -----------------------------------------------------------------------------------------

// Among threads of this GPU.  Pairs with acquires at either scope.
struct DeviceAtomics {
  __device__ static void add_release(uint64_t* word, uint64_t value) {
    asm volatile("red.release.gpu.global.add.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(word)), "l"(value)
                 : "memory");
  }
};

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
  __device__ static void store_relaxed(uint64_t* word, uint64_t value) {
    Word(*word).store(value, cuda::memory_order_relaxed);
  }
  // What came before it is visible to whoever acquires a relaxed store or add that comes after it.
  __device__ static void fence_release() { ptx::fence(ptx::sem_release, ptx::scope_sys); }
  __device__ static uint64_t add_release(uint64_t* word, uint64_t value) {
    return Word(*word).fetch_add(value, cuda::memory_order_release);
  }
  __device__ static uint64_t add_acq_rel(uint64_t* word, uint64_t value) {
    return Word(*word).fetch_add(value, cuda::memory_order_acq_rel);
  }
  __device__ static uint64_t add_relaxed(uint64_t* word, uint64_t value) {
    return Word(*word).fetch_add(value, cuda::memory_order_relaxed);
  }
  // The same for one who does not ask what it was: nothing comes back.  `word` lies in global memory, which libcu++
  // cannot know: its adds branch on it and wait for the value.
  __device__ static void tell_relaxed(uint64_t* word, uint64_t value) {
    asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(word)), "l"(value)
                 : "memory");
  }
  // Afterwards the word holds at least `value`.
  __device__ static void raise_relaxed(uint64_t* word, uint64_t value) {
    asm volatile("red.relaxed.sys.global.max.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(word)), "l"(value)
                 : "memory");
  }
  // Whether the word held `expected`; then it holds `value` now.
  __device__ static bool replace_relaxed(uint64_t* word, uint64_t expected, uint64_t value) {
    uint64_t seen;
    asm volatile("atom.relaxed.sys.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(seen)
                 : "l"(__cvta_generic_to_global(word)), "l"(expected), "l"(value)
                 : "memory");
    return seen == expected;
  }
};

}  // namespace mk::sm90

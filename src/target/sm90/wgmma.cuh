// SPDX-License-Identifier: MIT
// target/sm90/wgmma.cuh — the tensor cores' instructions: a warpgroup multiplies 64 rows by up to 256 columns.
//
// Which elements a thread holds is in fragment.h.  Between wgmma_begin and wgmma_wait nobody touches the sums, or an A
// in registers; operands in shared memory that ordinary stores wrote need shared_stores_before_wgmma.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "mkernel/types.h"

namespace mk::sm90 {

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
//
//   k contiguous        rows of 128 bytes, 64 of k, in groups of 8.  `stride_bytes` leads from group to group: 1024 if
//                       they follow each other.  `leading_bytes` is not looked at.  16 of k are 32 bytes.
//   m or n contiguous   rows of 128 bytes, 64 of m or n, one for each k, in groups of 8.  `stride_bytes` leads from
//                       group to group, `leading_bytes` to the next 64 of m or n.  16 of k are 2 groups.
__device__ inline uint64_t wgmma_operand(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return kSwizzle128 | static_cast<uint64_t>(stride_bytes >> 4) << 32 |
         static_cast<uint64_t>(leading_bytes >> 4) << 16 | ((address & 0x3ffff) >> 4);
}

// An operand's description whose halves do not touch: what leads on within a stage is added to the lower.
struct Operand {
  uint32_t lower;
  uint32_t upper;

  __device__ explicit Operand(uint64_t bits)
      : lower(static_cast<uint32_t>(bits)), upper(static_cast<uint32_t>(bits >> 32)) {}
  __device__ uint64_t at(int bytes) const { return static_cast<uint64_t>(upper) << 32 | (lower + bytes / 16); }
};

// Tells the compiler that all lanes have the same, so that it is kept in a uniform register.
__device__ inline uint32_t uniform(uint32_t value) { return __shfl_sync(0xffffffffu, value, 0); }

// How A lies in shared memory: k contiguous, or m.
enum class AOrder { kMK, kKM };

// Sums and their numbers, for every width: a multiple of 16.
#define MK_ACC8(d, i)                                                                                         \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define MK_ACC_16(d) MK_ACC8(d, 0)
#define MK_ACC_32(d) MK_ACC_16(d), MK_ACC8(d, 8)
#define MK_ACC_48(d) MK_ACC_32(d), MK_ACC8(d, 16)
#define MK_ACC_64(d) MK_ACC_48(d), MK_ACC8(d, 24)
#define MK_ACC_80(d) MK_ACC_64(d), MK_ACC8(d, 32)
#define MK_ACC_96(d) MK_ACC_80(d), MK_ACC8(d, 40)
#define MK_ACC_112(d) MK_ACC_96(d), MK_ACC8(d, 48)
#define MK_ACC_128(d) MK_ACC_112(d), MK_ACC8(d, 56)
#define MK_ACC_144(d) MK_ACC_128(d), MK_ACC8(d, 64)
#define MK_ACC_160(d) MK_ACC_144(d), MK_ACC8(d, 72)
#define MK_ACC_176(d) MK_ACC_160(d), MK_ACC8(d, 80)
#define MK_ACC_192(d) MK_ACC_176(d), MK_ACC8(d, 88)
#define MK_ACC_208(d) MK_ACC_192(d), MK_ACC8(d, 96)
#define MK_ACC_224(d) MK_ACC_208(d), MK_ACC8(d, 104)
#define MK_ACC_240(d) MK_ACC_224(d), MK_ACC8(d, 112)
#define MK_ACC_256(d) MK_ACC_240(d), MK_ACC8(d, 120)

#define MK_REGS_16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MK_REGS_32 MK_REGS_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define MK_REGS_48 MK_REGS_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define MK_REGS_64 MK_REGS_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define MK_REGS_80 MK_REGS_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define MK_REGS_96 MK_REGS_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define MK_REGS_112 MK_REGS_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define MK_REGS_128 MK_REGS_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define MK_REGS_144 MK_REGS_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define MK_REGS_160 MK_REGS_144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define MK_REGS_176 MK_REGS_160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define MK_REGS_192 MK_REGS_176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define MK_REGS_208 MK_REGS_192 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define MK_REGS_224 MK_REGS_208 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define MK_REGS_240 MK_REGS_224 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define MK_REGS_256 MK_REGS_240 ", %120, %121, %122, %123, %124, %125, %126, %127"

// Calls make(n, …) for the width that is kN; `…` are the numbers of the operands after the sums.
#define MK_WIDTH(make, n, ...) \
  if constexpr (kN == n) {     \
    make(n, __VA_ARGS__);      \
  }
#define MK_WIDTHS(make)                                  \
  MK_WIDTH(make, 16, 8, 9, 10, 11, 12, 13, 14)           \
  MK_WIDTH(make, 32, 16, 17, 18, 19, 20, 21, 22)         \
  MK_WIDTH(make, 48, 24, 25, 26, 27, 28, 29, 30)         \
  MK_WIDTH(make, 64, 32, 33, 34, 35, 36, 37, 38)         \
  MK_WIDTH(make, 80, 40, 41, 42, 43, 44, 45, 46)         \
  MK_WIDTH(make, 96, 48, 49, 50, 51, 52, 53, 54)         \
  MK_WIDTH(make, 112, 56, 57, 58, 59, 60, 61, 62)        \
  MK_WIDTH(make, 128, 64, 65, 66, 67, 68, 69, 70)        \
  MK_WIDTH(make, 144, 72, 73, 74, 75, 76, 77, 78)        \
  MK_WIDTH(make, 160, 80, 81, 82, 83, 84, 85, 86)        \
  MK_WIDTH(make, 176, 88, 89, 90, 91, 92, 93, 94)        \
  MK_WIDTH(make, 192, 96, 97, 98, 99, 100, 101, 102)     \
  MK_WIDTH(make, 208, 104, 105, 106, 107, 108, 109, 110) \
  MK_WIDTH(make, 224, 112, 113, 114, 115, 116, 117, 118) \
  MK_WIDTH(make, 240, 120, 121, 122, 123, 124, 125, 126) \
  MK_WIDTH(make, 256, 128, 129, 130, 131, 132, 133, 134)

#define MK_WGMMA(n, type, a, b, accumulate, flags)                                                              \
  "{\n.reg .pred p;\nsetp.ne.b32 p, %" #accumulate ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type \
  "." type " {" MK_REGS_##n "}, " a ", %" #b ", p, 1, 1, " flags ";\n}\n"
#define MK_SHARED(n, type, a_at, b_at, accumulate_at, a_flag, b_flag)                       \
  asm volatile(MK_WGMMA(n, type, "%" #a_at, b_at, accumulate_at, "%" #a_flag ", %" #b_flag) \
               : MK_ACC_##n(d)                                                              \
               : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kMContiguous), "n"(kNContiguous))
#define MK_REGISTERS(n, type, a0, a1, a2, a3, b_at, accumulate_at, b_flag)                                     \
  asm volatile(MK_WGMMA(n, type, "{%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}", b_at, accumulate_at, "%" #b_flag) \
               : MK_ACC_##n(d)                                                                                 \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)),        \
                 "n"(kNContiguous))
#define MK_SHARED_BF16(n, i0, i1, i2, i3, i4, i5, i6) MK_SHARED(n, "bf16", i0, i1, i2, i3, i4)
#define MK_SHARED_F16(n, i0, i1, i2, i3, i4, i5, i6) MK_SHARED(n, "f16", i0, i1, i2, i3, i4)
#define MK_REGISTERS_BF16(n, i0, i1, i2, i3, i4, i5, i6) MK_REGISTERS(n, "bf16", i0, i1, i2, i3, i4, i5, i6)
#define MK_REGISTERS_F16(n, i0, i1, i2, i3, i4, i5, i6) MK_REGISTERS(n, "f16", i0, i1, i2, i3, i4, i5, i6)

// d = a·b (+ d if `accumulate`): 64 × kN × 16, both in shared memory; B with n contiguous if it lies as [K,N], with k
// contiguous if as [N,K].
template <class Element, int kN, BOrder kOrder, AOrder kOrderOfA = AOrder::kMK>
__device__ inline void wgmma(float (&d)[kN / 2], uint64_t a, uint64_t b, bool accumulate) {
  static_assert(kN % 16 == 0 && kN >= 16 && kN <= 256, "no wgmma of this width");
  constexpr int kMContiguous = kOrderOfA == AOrder::kKM ? 1 : 0;
  constexpr int kNContiguous = kOrder == BOrder::kKN ? 1 : 0;
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    MK_WIDTHS(MK_SHARED_BF16)
  } else {
    MK_WIDTHS(MK_SHARED_F16)
  }
}

// The same with A in registers, as fragment.h says.
template <class Element, int kN, BOrder kOrder>
__device__ inline void wgmma(float (&d)[kN / 2], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
  static_assert(kN % 16 == 0 && kN >= 16 && kN <= 256, "no wgmma of this width");
  constexpr int kNContiguous = kOrder == BOrder::kKN ? 1 : 0;
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    MK_WIDTHS(MK_REGISTERS_BF16)
  } else {
    MK_WIDTHS(MK_REGISTERS_F16)
  }
}

#undef MK_REGISTERS_F16
#undef MK_REGISTERS_BF16
#undef MK_SHARED_F16
#undef MK_SHARED_BF16
#undef MK_REGISTERS
#undef MK_SHARED
#undef MK_WGMMA
#undef MK_WIDTHS
#undef MK_WIDTH
#undef MK_REGS_256
#undef MK_REGS_240
#undef MK_REGS_224
#undef MK_REGS_208
#undef MK_REGS_192
#undef MK_REGS_176
#undef MK_REGS_160
#undef MK_REGS_144
#undef MK_REGS_128
#undef MK_REGS_112
#undef MK_REGS_96
#undef MK_REGS_80
#undef MK_REGS_64
#undef MK_REGS_48
#undef MK_REGS_32
#undef MK_REGS_16
#undef MK_ACC_256
#undef MK_ACC_240
#undef MK_ACC_224
#undef MK_ACC_208
#undef MK_ACC_192
#undef MK_ACC_176
#undef MK_ACC_160
#undef MK_ACC_144
#undef MK_ACC_128
#undef MK_ACC_112
#undef MK_ACC_96
#undef MK_ACC_80
#undef MK_ACC_64
#undef MK_ACC_48
#undef MK_ACC_32
#undef MK_ACC_16
#undef MK_ACC8

}  // namespace mk::sm90

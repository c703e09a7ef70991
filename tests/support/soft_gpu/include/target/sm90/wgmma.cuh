// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/include/target/sm90/wgmma.cuh — the same functions as
// target/sm90/wgmma.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "mkernel/types.h"
#include "tests/support/soft_gpu/soft_products.h"

namespace mk::soft_gpu {

void issue_product(const Product& product, float* sums, const uint32_t* a);
void commit_products();
void wait_for_products(unsigned pending);

}  // namespace mk::soft_gpu

namespace mk::sm90 {

inline void wgmma_begin() {}
inline void wgmma_commit() { soft_gpu::commit_products(); }
template <int kPending>
void wgmma_wait() {
  soft_gpu::wait_for_products(kPending);
}
template <int kCount>
void wgmma_results(float (&)[kCount]) {}

// In units of 16 bytes, as in the real one, but with as many bits of an address as there are.
inline uint64_t wgmma_operand(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes) {
  return uint64_t{leading_bytes >> 4} << 48 | uint64_t{stride_bytes >> 4} << 32 | address >> 4;
}

struct Operand {
  uint32_t lower;
  uint32_t upper;

  explicit Operand(uint64_t bits) : lower(static_cast<uint32_t>(bits)), upper(static_cast<uint32_t>(bits >> 32)) {}
  uint64_t at(int bytes) const { return static_cast<uint64_t>(upper) << 32 | (lower + bytes / 16); }
};

inline uint32_t uniform(uint32_t value) { return __shfl_sync(0xffffffffu, value, 0); }

enum class AOrder { kMK, kKM };

inline soft_gpu::SharedOperand shared_operand(uint64_t bits, bool is_across) {
  return {static_cast<uint32_t>(bits) << 4, static_cast<uint32_t>(bits >> 48) << 4,
          static_cast<uint32_t>(bits >> 32 & 0xffff) << 4, is_across ? soft_gpu::Rows::kAcross : soft_gpu::Rows::kOfK};
}

template <class Element>
constexpr soft_gpu::Half16 half_type() {
  return std::is_same_v<Element, __nv_bfloat16> ? soft_gpu::Half16::kBf16 : soft_gpu::Half16::kFp16;
}

template <class Element, int kN, BOrder kOrder, AOrder kOrderOfA = AOrder::kMK>
void wgmma(float (&d)[kN / 2], uint64_t a, uint64_t b, bool accumulate) {
  static_assert(kN % 16 == 0 && kN >= 16 && kN <= 256, "no wgmma of this width");
  soft_gpu::issue_product({.columns = kN,
                           .type = half_type<Element>(),
                           .a = shared_operand(a, kOrderOfA == AOrder::kKM),
                           .b = shared_operand(b, kOrder == BOrder::kKN),
                           .accumulates = accumulate},
                          d, nullptr);
}

template <class Element, int kN, BOrder kOrder>
void wgmma(float (&d)[kN / 2], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
  static_assert(kN % 16 == 0 && kN >= 16 && kN <= 256, "no wgmma of this width");
  soft_gpu::issue_product({.columns = kN,
                           .type = half_type<Element>(),
                           .has_a_in_registers = true,
                           .a = {},
                           .b = shared_operand(b, kOrder == BOrder::kKN),
                           .accumulates = accumulate},
                          d, a);
}

}  // namespace mk::sm90

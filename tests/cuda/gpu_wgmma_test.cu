// SPDX-License-Identifier: MIT
// tests/cuda/gpu_wgmma_test.cu — the tensor cores by one warpgroup: A from shared memory in both orders and from
// registers, B in both orders, every element exact.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "target/sm90/epilogue.cuh"
#include "target/sm90/fragment.h"
#include "target/sm90/ptx.cuh"
#include "target/sm90/wgmma.cuh"
#include "tests/cuda/device_array.h"
#include "tests/cuda/gpu_launch.h"

namespace mk::sm90 {
namespace {

using test::DeviceArray;

constexpr int kM = 64;
constexpr int kK = 64;

enum class From { kShared, kSharedTransposed, kRegisters };

// Where byte `at` of rows of 128 bytes lies when they are swizzled.
__device__ int swizzled(int at) { return at ^ (at / 128 % 8) * 16; }

// Puts a matrix of kK × kSide into shared memory with one of its sides contiguous, in boxes of 64.
template <class Element>
__device__ void stage(Element* to, const Element* values, int side, bool side_contiguous) {
  for (int i = static_cast<int>(threadIdx.x); i < kK * side; i += 128) {
    const int k = i % kK;
    const int s = i / kK;
    const int row = side_contiguous ? s / 64 * kK + k : s;
    const int col = side_contiguous ? s % 64 : k;
    to[swizzled((row * 64 + col) * 2) / 2] = values[i];  // values: s by s
  }
}

template <BOrder kOrder>
__device__ uint64_t operand_b(const void* b, int step) {
  return kOrder == BOrder::kKN ? wgmma_operand(shared_address(b) + step * 2048, kK * 128, 1024)
                               : wgmma_operand(shared_address(b) + step * 32, 16, 1024);
}

template <class Element>
__device__ uint32_t pair_at(const Element* a, int row, int col) {
  return reinterpret_cast<const uint32_t*>(a)[(row * kK + col) / 2];
}

// out[64][kN] = a · b, with a as [kM][kK] and b as [kN][kK].
template <class Element, int kN, From kFrom, BOrder kOrder>
__global__ void __launch_bounds__(128, 1) multiply(const Element* a, const Element* b, float* out) {
  alignas(1024) __shared__ Element shared_a[kM * kK];
  alignas(1024) __shared__ Element shared_b[(kN + 63) / 64 * 64 * kK];
  stage(shared_a, a, kM, kFrom == From::kSharedTransposed);
  stage(shared_b, b, kN, kOrder == BOrder::kKN);
  shared_stores_before_wgmma();
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x);
  uint32_t words[kK / 16][4];
#pragma unroll
  for (int i = 0; i < kK / 4; ++i) {
    words[i / 4][i % 4] = pair_at(a, Fragment::a_row(thread, i % 4), i / 4 * 16 + Fragment::a_col(thread, i % 4));
  }
  float sums[kN / 2];
  wgmma_begin();
#pragma unroll
  for (int step = 0; step < kK / 16; ++step) {
    const uint64_t right = operand_b<kOrder>(shared_b, step);
    if constexpr (kFrom == From::kRegisters) {
      wgmma<Element, kN, kOrder>(sums, words[step], right, step > 0);
    } else if constexpr (kFrom == From::kSharedTransposed) {
      wgmma<Element, kN, kOrder, AOrder::kKM>(
          sums, wgmma_operand(shared_address(shared_a) + step * 2048, kK * 128, 1024), right, step > 0);
    } else {
      wgmma<Element, kN, kOrder>(sums, wgmma_operand(shared_address(shared_a) + step * 32, 16, 1024), right, step > 0);
    }
  }
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_results(sums);
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) out[Fragment::sum_row(thread, i) * kN + Fragment::sum_col(thread, i)] = sums[i];
}

// out = (a · b) · c, with c as [kN][64]: the sums of the first product are the A of the second.
template <class Element, int kN>
__global__ void __launch_bounds__(128, 1)
    multiply_twice(const Element* a, const Element* b, const Element* c, float* out) {
  alignas(1024) __shared__ Element shared_a[kM * kK];
  alignas(1024) __shared__ Element shared_b[64 * kK];
  alignas(1024) __shared__ Element shared_c[(kN + 63) / 64 * 64 * kK];
  stage(shared_a, a, kM, false);
  stage(shared_b, b, 64, false);
  stage(shared_c, c, kN, true);
  shared_stores_before_wgmma();
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x);
  float first[64 / 2];
  wgmma_begin();
#pragma unroll
  for (int step = 0; step < kK / 16; ++step) {
    wgmma<Element, 64, BOrder::kNK>(first, wgmma_operand(shared_address(shared_a) + step * 32, 16, 1024),
                                    operand_b<BOrder::kNK>(shared_b, step), step > 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_results(first);
  uint32_t words[64 / 16][4];
#pragma unroll
  for (int i = 0; i < 64 / 4; ++i) {
    const int sum = Fragment::sum_of_word(i / 4, i % 4);
    words[i / 4][i % 4] = pack<Element>(first[sum], first[sum + 1]);
  }
  float sums[kN / 2];
  wgmma_begin();
#pragma unroll
  for (int step = 0; step < 64 / 16; ++step) {
    wgmma<Element, kN, BOrder::kKN>(sums, words[step], operand_b<BOrder::kKN>(shared_c, step), step > 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_results(sums);
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) out[Fragment::sum_row(thread, i) * kN + Fragment::sum_col(thread, i)] = sums[i];
}

template <class Element>
std::vector<Element> integers(int count, int most, int seed) {
  std::mt19937 random(seed);
  std::vector<Element> values(count);
  for (Element& value : values) {
    value = static_cast<Element>(static_cast<float>(static_cast<int>(random() % (2 * most + 1)) - most));
  }
  return values;
}

// left[m][kK] · right[n][kK].
template <class L, class R>
std::vector<float> product(const std::vector<L>& left, const std::vector<R>& right) {
  const size_t m = left.size() / kK;
  const size_t n = right.size() / kK;
  std::vector<float> out(m * n);
  for (size_t i = 0; i < m * n; ++i) {
    for (int k = 0; k < kK; ++k) {
      out[i] += static_cast<float>(left[i / n * kK + k]) * static_cast<float>(right[i % n * kK + k]);
    }
  }
  return out;
}

template <class Element, int kN, From kFrom, BOrder kOrder>
void expect_exact() {
  SCOPED_TRACE(testing::Message() << kN << " columns, A " << static_cast<int>(kFrom) << ", B " << name_of(kOrder));
  const std::vector<Element> a = integers<Element>(kM * kK, 4, kN);
  const std::vector<Element> b = integers<Element>(kN * kK, 4, kN + 1);
  const DeviceArray on_a(a);
  const DeviceArray on_b(b);
  const DeviceArray out(std::vector<float>(kM * kN, -1e30f));
  multiply<Element, kN, kFrom, kOrder><<<1, 128>>>(on_a.data(), on_b.data(), out.data());
  EXPECT_EQ(out.read(), product(a, b));
}

template <class Element, int kN>
void expect_exact_in_all_ways() {
  expect_exact<Element, kN, From::kShared, BOrder::kKN>();
  expect_exact<Element, kN, From::kShared, BOrder::kNK>();
  expect_exact<Element, kN, From::kSharedTransposed, BOrder::kKN>();
  expect_exact<Element, kN, From::kSharedTransposed, BOrder::kNK>();
  expect_exact<Element, kN, From::kRegisters, BOrder::kKN>();
  expect_exact<Element, kN, From::kRegisters, BOrder::kNK>();
}

TEST(GpuWgmma, EveryElementIsExactInBf16) {
  MK_NEEDS_GPU();
  expect_exact_in_all_ways<__nv_bfloat16, 16>();
  expect_exact_in_all_ways<__nv_bfloat16, 64>();
  expect_exact_in_all_ways<__nv_bfloat16, 80>();
  expect_exact_in_all_ways<__nv_bfloat16, 176>();
  expect_exact_in_all_ways<__nv_bfloat16, 256>();
}

TEST(GpuWgmma, EveryElementIsExactInFp16) {
  MK_NEEDS_GPU();
  expect_exact_in_all_ways<__half, 64>();
  expect_exact_in_all_ways<__half, 128>();
  expect_exact_in_all_ways<__half, 192>();
}

// As attention does it.  Sums of the first product are at most 64, which both types hold.
template <class Element, int kN>
void expect_exact_twice() {
  const std::vector<Element> a = integers<Element>(kM * kK, 1, 1);
  const std::vector<Element> b = integers<Element>(64 * kK, 1, 2);
  const std::vector<Element> c = integers<Element>(kN * kK, 4, 3);
  const DeviceArray on_a(a);
  const DeviceArray on_b(b);
  const DeviceArray on_c(c);
  const DeviceArray out(std::vector<float>(kM * kN, -1e30f));
  multiply_twice<Element, kN><<<1, 128>>>(on_a.data(), on_b.data(), on_c.data(), out.data());
  EXPECT_EQ(out.read(), product(product(a, b), c));
}

TEST(GpuWgmma, SumsAreTheLeftOperandOfTheNextProduct) {
  MK_NEEDS_GPU();
  expect_exact_twice<__nv_bfloat16, 128>();
  expect_exact_twice<__half, 128>();
}

}  // namespace
}  // namespace mk::sm90

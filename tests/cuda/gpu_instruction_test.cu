// SPDX-License-Identifier: MIT
// tests/cuda/gpu_instruction_test.cu — barriers by name, and bulk copies that add.
#include <gtest/gtest.h>

#include <vector>

#include "target/sm90/pipeline.cuh"
#include "target/sm90/ptx.cuh"
#include "target/sm90/tensor_map.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/exact_data.h"
#include "tests/cuda/gpu_launch.h"

namespace mk::sm90 {
namespace {

using test::DeviceArray;
using test::kDTypeOf;

// A block that has 168 registers a thread at start has no more after the hand-over.
static_assert(registers_fit(56, 2, 224) && registers_fit(72, 2, 216));
static_assert(!registers_fit(64, 2, 224) && !registers_fit(56, 2, 232));

// ---- barriers by name ------------------------------------------------------------------------------------

enum class Turn { kFirst = 1, kSecond = 2 };  // whose turn it is

// Two warps write into one log in turn; only the barriers keep them apart.
__global__ void take_turns(int* log, int rounds) {
  __shared__ int written;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const Turn own = warp == 0 ? Turn::kFirst : Turn::kSecond;
  const Turn other = warp == 0 ? Turn::kSecond : Turn::kFirst;
  if (threadIdx.x == 0) written = 0;
  __syncthreads();
  if (warp == 1) arrive_at(Turn::kFirst, 64);
  for (int round = 0; round < rounds; ++round) {
    sync_at(own, 64);
    if (threadIdx.x % 32 == 0) log[written++] = warp;
    __syncwarp();
    const bool is_last = warp == 1 && round == rounds - 1;  // nobody waits for it
    if (!is_last) arrive_at(other, 64);
  }
}

TEST(GpuNamedBarrier, TwoWarpsTakeTurns) {
  MK_NEEDS_GPU();
  constexpr int kRounds = 1000;
  const DeviceArray log(std::vector<int>(2 * kRounds, -1));
  take_turns<<<1, 64>>>(log.data(), kRounds);
  const std::vector<int> seen = log.read();
  for (int i = 0; i < 2 * kRounds; ++i) ASSERT_EQ(seen[i], i % 2) << i;
}

// Warps 0 and 1 meet over and over while the other two wait elsewhere.
enum class Meeting { kOfTwo = 15 };

__global__ void meet_beside_others(int* out) {
  __shared__ int box[64];
  if (threadIdx.x < 64) {
    int sum = 0;
    for (int round = 0; round < 100; ++round) {
      box[threadIdx.x] = round + static_cast<int>(threadIdx.x);
      sync_at(Meeting::kOfTwo, 64);
      sum += box[63 - threadIdx.x];
      sync_at(Meeting::kOfTwo, 64);
    }
    out[threadIdx.x] = sum;
  }
  __syncthreads();
}

TEST(GpuNamedBarrier, WarpsMeetWhileOthersWaitElsewhere) {
  MK_NEEDS_GPU();
  const DeviceArray out(std::vector<int>(64, -1));
  meet_beside_others<<<1, 128>>>(out.data());
  const std::vector<int> seen = out.read();
  for (int i = 0; i < 64; ++i) ASSERT_EQ(seen[i], 4950 + 100 * (63 - i)) << i;
}

// ---- copies that add -------------------------------------------------------------------------------------

constexpr int kBlocks = 8;
constexpr int kRows = 24;
constexpr int kCols = 64;

// What a block adds: small enough that sums over blocks, and one more, are exact in every type.
__host__ __device__ inline float addend(int block, int i) { return static_cast<float>((block + 1) * (i % 7)); }
float sum_at(int i) {
  float sum = 1;
  for (int block = 0; block < kBlocks; ++block) sum += addend(block, i);
  return sum;
}

template <class Element>
__device__ void fill_and_meet(Element* box) {
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kCols; i += static_cast<int>(blockDim.x)) {
    box[i] = static_cast<Element>(addend(static_cast<int>(blockIdx.x), i));
  }
  shared_stores_before_tma();
  __syncthreads();
}

template <class Element>
__global__ void add_range(Element* sums) {
  alignas(128) __shared__ Element box[kRows * kCols];
  fill_and_meet(box);
  if (threadIdx.x != 0) return;
  ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, sums, box, uint32_t{sizeof(box)});
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
}

// The box begins at (0, row) of a matrix.
template <class Element>
__global__ void add_box(const __grid_constant__ CUtensorMap map, int row) {
  alignas(1024) __shared__ Element box[kRows * kCols];
  fill_and_meet(box);
  if (threadIdx.x != 0) return;
  const int32_t at[2] = {0, row};
  ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_add, &map, at, box);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
}

template <class Element>
class GpuBulkAdd : public testing::Test {};
using Elements = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(GpuBulkAdd, Elements);

TYPED_TEST(GpuBulkAdd, BlocksAddToTheSameRange) {
  MK_NEEDS_GPU();
  const DeviceArray sums(std::vector<TypeParam>(kRows * kCols, static_cast<TypeParam>(1.0f)));
  add_range<TypeParam><<<kBlocks, 128>>>(sums.data());
  const std::vector<TypeParam> seen = sums.read();
  for (int i = 0; i < kRows * kCols; ++i) ASSERT_EQ(static_cast<float>(seen[i]), sum_at(i)) << i;
}

// The matrix ends inside the box, which is not swizzled; what lies behind it stays.
TYPED_TEST(GpuBulkAdd, BlocksAddToABoxAndNothingOutside) {
  MK_NEEDS_GPU();
  constexpr int kRow = 5;
  const DeviceArray matrix(std::vector<TypeParam>(2 * kRows * kCols, static_cast<TypeParam>(1.0f)));
  const TensorView view = TensorView::packed(matrix.data(), kDTypeOf<TypeParam>, {kCols, kRows});
  add_box<TypeParam><<<kBlocks, 128>>>(make_tensor_map(view, {{kCols, kRows}, Swizzle::kNone}), kRow);
  const std::vector<TypeParam> seen = matrix.read();
  for (int i = 0; i < 2 * kRows * kCols; ++i) {
    const int row = i / kCols;
    const float expected = row >= kRow && row < kRows ? sum_at(i - kRow * kCols) : 1.0f;
    ASSERT_EQ(static_cast<float>(seen[i]), expected) << i;
  }
}

}  // namespace
}  // namespace mk::sm90

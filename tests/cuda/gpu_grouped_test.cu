// SPDX-License-Identifier: MIT
// tests/cuda/gpu_grouped_test.cu — groups of rows, each times a B of its own, by the GEMM engine's jobs alone: operands
// per tile, stores that end with a group, results of fp32, hooks that see row and column.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "base/math.h"
#include "target/sm90/tensor_map.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/engine_block.cuh"
#include "tests/cuda/exact_data.h"
#include "tests/cuda/gpu_launch.h"

namespace mk::sm90 {
namespace {

using test::DeviceArray;
using test::integers;
using test::kDTypeOf;

// Groups follow each other in A and C without gaps; how many rows each has is known on the device only.
struct GroupedParams {
  CUtensorMap a;
  CUtensorMap b;  // a shard for each group
  CUtensorMap c;
  CUtensorMap c_narrow;
  const int* rows_of;  // of each group
  int groups;
  int n;
  int k;
};

struct GroupTile {
  int group = 0;
  int row = 0;  // of A and C
  int end = 0;  // where the group's rows end
  int col = 0;
  int after = 0;  // tiles of the same cluster that follow
};

// The tiles of one of `clusters`: every so-manieth of all.
template <class Config, class Body>
__device__ void for_each_tile(const GroupedParams& p, Body&& body) {
  constexpr int kRows = Config::kTileM * Config::kCluster;
  const int clusters = static_cast<int>(gridDim.x) / Config::kCluster;
  const int own = static_cast<int>(blockIdx.x) / Config::kCluster;
  const int across = ceil_div(p.n, Config::kTileN);
  int all = 0;
  for (int group = 0; group < p.groups; ++group) all += ceil_div(p.rows_of[group], kRows) * across;
  int first_row = 0;
  int before = 0;  // tiles of the groups before
  int next = own;
  for (int group = 0; group < p.groups; ++group) {
    const int end = first_row + p.rows_of[group];
    const int tiles = ceil_div(p.rows_of[group], kRows) * across;
    for (; next < before + tiles; next += clusters) {
      const int in_group = next - before;
      body(GroupTile{group, first_row + in_group / across * kRows, end, in_group % across * Config::kTileN,
                     (all - 1 - next) / clusters});
    }
    before += tiles;
    first_row = end;
  }
}

template <class Config>
__device__ int row_of_block(const GroupTile& tile) {
  return tile.row + (Config::kCluster > 1 ? static_cast<int>(block_in_cluster()) * Config::kTileM : 0);
}

// So that a wrong row or column shows; exact with small sums.
struct AddPlace {
  static constexpr int kFold = 1;
  __host__ __device__ static float of(int row, int col) { return static_cast<float>(row % 32 - 8 * (col % 4)); }
  __device__ void operator()(float& x, float& y, int row, int col) const {
    x += of(row, col);
    y += of(row, col + 1);
  }
};

template <class Config, class Element, BOrder kOrder, class Results>
__global__ void __launch_bounds__(Config::kThreads, 1) grouped_kernel(const __grid_constant__ GroupedParams p) {
  auto& shared = test::shared_of<Config, Element>();
  const auto load = [&] {
    LoadJob<Config, Element, kOrder> job(shared);
    for_each_tile<Config>(p, [&](const GroupTile& tile) {
      job.load({&p.a, &p.b, blocks_of_k<Config>(p.k)},
               {.row = row_of_block<Config>(tile), .col = tile.col, .b_shard = tile.group});
    });
    job.finish();
  };
  const auto store = [&] {
    StoreJob<Config, Element> job(shared);
    for_each_tile<Config>(p, [&](const GroupTile& tile) {
      const auto send_box = [&](const void* box, int row, int col) {
        const int first = row_of_block<Config>(tile) + row;
        if (first >= tile.end) return;
        const auto to =
            RaggedRows::box(tile.col + col, first, min_of(Results::kRows, tile.end - first), Results::kRows);
        const CUtensorMap* const map = Results::is_narrow(col) ? &p.c_narrow : &p.c;
        ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, map, to.at, box);
      };
      job.template store_one<Results>(tile.after, send_box);
    });
    job.finish_reads();
  };
  const auto multiply = [&] {
    MathsJob<Config, Element, kOrder, Staging::kTensor, Results> job(shared);
    for_each_tile<Config>(p, [&](const GroupTile& tile) {
      job.multiply({.k_blocks = blocks_of_k<Config>(p.k), .row = row_of_block<Config>(tile), .col = tile.col},
                   AddPlace{});
    });
    job.finish();
  };
  test::run_jobs<Config, Element>(shared, load, store, multiply);
}

struct GroupedCase {
  std::vector<int> rows_of;
  int n;
  int k;
};

// Groups of no rows, of one, of whole tiles and of tails; the last case has no rows at all.  n and k with tails and
// without; k of less than one block, and of more blocks than any pipeline has stages.
const std::vector<GroupedCase> kCases = {{{0, 1, 300, 0, 64, 129, 7, 0}, 264, 136},
                                         {{256, 128, 1, 1, 1}, 256, 64},
                                         {{65, 0, 0, 511}, 72, 712},
                                         {{3, 5}, 8, 8},
                                         {{0, 0, 0}, 16, 16}};

// The element whose bits are all set: a NaN.
template <class Out>
Out poison() {
  Out value;
  std::memset(&value, 0xff, sizeof(value));
  return value;
}

template <class Config, class Element, BOrder kOrder, class Out = Element>
void expect_exact(const GroupedCase& at, int blocks) {
  using Results = ResultBoxes<Config, sizeof(Out)>;
  const int groups = static_cast<int>(at.rows_of.size());
  const int rows = std::accumulate(at.rows_of.begin(), at.rows_of.end(), 0);
  SCOPED_TRACE(testing::Message() << Config::kTileM << "x" << Config::kTileN << "x" << Config::kCluster << ", " << rows
                                  << " rows, n " << at.n << ", k " << at.k << ", B " << name_of(kOrder) << ", "
                                  << blocks << " blocks");
  constexpr int kGuard = 300;  // rows behind C, which nobody may touch; a matrix has at least one row
  const std::vector<Element> a = integers<Element>(static_cast<size_t>(rows + 1) * at.k, 1);
  const std::vector<Element> b = integers<Element>(static_cast<size_t>(groups) * at.k * at.n, 2);
  const std::vector<Out> poisoned(static_cast<size_t>(rows + kGuard) * at.n, poison<Out>());
  const DeviceArray on_a(a);
  const DeviceArray on_b(b);
  const DeviceArray on_c(poisoned);
  const DeviceArray rows_of(at.rows_of);

  const DType dtype = kDTypeOf<Element>;
  const RaggedRows ragged{.cols = at.n, .rows = rows, .box_rows = Results::kRows};
  GroupedParams params{};
  params.a = make_tensor_map(ShardedMatrix{on_a.data(), dtype, at.k, rows + 1, 1}, Config::kTileK, Config::kTileM);
  params.b = make_right_map<Config, kOrder>(on_b.data(), dtype, at.n, at.k, groups);
  params.c = make_ragged_map(on_c.data(), kDTypeOf<Out>, ragged, Results::kCols);
  if (Results::kNarrow > 0) params.c_narrow = make_ragged_map(on_c.data(), kDTypeOf<Out>, ragged, Results::kNarrow);
  params.rows_of = rows_of.data();
  params.groups = groups;
  params.n = at.n;
  params.k = at.k;
  test::launch_jobs<Config, Element>(grouped_kernel<Config, Element, kOrder, Results>, params, blocks);

  const std::vector<Out> seen = on_c.read();
  size_t row = 0;
  for (int group = 0; group < groups; ++group) {
    for (int i = 0; i < at.rows_of[group]; ++i, ++row) {
      for (int col = 0; col < at.n; ++col) {
        float sum = 0;
        for (int k = 0; k < at.k; ++k) {
          const size_t in_b =
              kOrder == BOrder::kKN ? static_cast<size_t>(k) * at.n + col : static_cast<size_t>(col) * at.k + k;
          sum += static_cast<float>(a[row * at.k + k]) *
                 static_cast<float>(b[static_cast<size_t>(group) * at.k * at.n + in_b]);
        }
        const Out expected = static_cast<Out>(sum + AddPlace::of(static_cast<int>(row), col));
        ASSERT_EQ(static_cast<float>(seen[row * at.n + col]), static_cast<float>(expected))
            << "group " << group << ", row " << row << ", column " << col;
      }
    }
  }
  EXPECT_EQ(std::memcmp(&seen[row * at.n], &poisoned[row * at.n], kGuard * at.n * sizeof(Out)), 0)
      << "rows behind the last group were written";
}

// On one cluster, which has all tiles, and on many, most of which have none.
template <class Config, class Element, class Out = Element>
void expect_exact_in_all_cases() {
  for (const GroupedCase& at : kCases) {
    for (const int blocks : {Config::kCluster, 3 * Config::kCluster, 64}) {
      expect_exact<Config, Element, BOrder::kKN, Out>(at, blocks);
      expect_exact<Config, Element, BOrder::kNK, Out>(at, blocks);
    }
  }
}

TEST(GpuGrouped, PairsOfBlocksAreExact) {
  MK_NEEDS_GPU();
  expect_exact_in_all_cases<GemmConfig<128, 256, 2, 2>, __nv_bfloat16>();
}

TEST(GpuGrouped, WideTilesAreExact) {
  MK_NEEDS_GPU();
  expect_exact_in_all_cases<GemmConfig<128, 256, 2, 1, 1>, __half>();
}

TEST(GpuGrouped, TallTilesAreExact) {
  MK_NEEDS_GPU();
  expect_exact_in_all_cases<GemmConfig<256, 128, 2, 1, 1>, __nv_bfloat16>();
}

TEST(GpuGrouped, TilesWithANarrowBoxAreExact) {
  MK_NEEDS_GPU();
  expect_exact_in_all_cases<GemmConfig<128, 224, 2, 1, 1>, __nv_bfloat16>();
}

TEST(GpuGrouped, LowTilesAreExact) {
  MK_NEEDS_GPU();
  expect_exact_in_all_cases<GemmConfig<64, 128, 1, 1, 1>, __half>();
}

TEST(GpuGrouped, ResultsOfFp32AreExact) {
  MK_NEEDS_GPU();
  expect_exact_in_all_cases<GemmConfig<128, 128, 2, 1, 1>, __nv_bfloat16, float>();
  expect_exact_in_all_cases<GemmConfig<64, 128, 1, 1, 1>, __nv_bfloat16, float>();
}

}  // namespace
}  // namespace mk::sm90

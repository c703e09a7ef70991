// SPDX-License-Identifier: MIT
// tests/cuda/gpu_image_test.cu — tiles that leave as images (box_image.h), of 16 and of 32 bits, by the engine's jobs
// alone: every element lies where BoxImageOf says, tails are cut, and nothing is written behind the last tile.
#include <gtest/gtest.h>

#include <cstring>
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

struct ImageParams {
  CUtensorMap a;
  CUtensorMap b;
  std::byte* out;  // tile after tile, without padding
  int rows;
  int n;
  int k;
};

template <class Config, class Results>
struct ImageTile {
  using Image = BoxImageOf<Results::kElementBytes>;
  int row = 0;
  int col = 0;
  int after = 0;    // tiles of the same block that follow
  Image image{};    // what is left of the tile at the edges
  size_t byte = 0;  // where the image begins
};

template <class Config, class Results>
MK_HD ImageTile<Config, Results> tile_at(const ImageParams& p, int number) {
  const int across = ceil_div(p.n, Config::kTileN);
  const int row = number / across * Config::kTileM;
  const int col = number % across * Config::kTileN;
  const int height = min_of(Config::kTileM, p.rows - row);
  const size_t before = static_cast<size_t>(row) * p.n + static_cast<size_t>(height) * col;
  return {row, col, 0, {height, min_of(Config::kTileN, p.n - col)}, before * Results::kElementBytes};
}

template <class Config, class Results, class Body>
__device__ void for_each_tile(const ImageParams& p, Body&& body) {
  const int tiles = ceil_div(p.rows, Config::kTileM) * ceil_div(p.n, Config::kTileN);
  for (int number = static_cast<int>(blockIdx.x); number < tiles; number += static_cast<int>(gridDim.x)) {
    auto tile = tile_at<Config, Results>(p, number);
    tile.after = (tiles - 1 - number) / static_cast<int>(gridDim.x);
    body(tile);
  }
}

template <class Config, class Element, class Results>
__global__ void __launch_bounds__(Config::kThreads, 1) image_kernel(const __grid_constant__ ImageParams p) {
  auto& shared = test::shared_of<Config, Element>();
  const auto load = [&] {
    LoadJob<Config, Element, BOrder::kKN> job(shared);
    for_each_tile<Config, Results>(p, [&](const auto& tile) {
      job.load({&p.a, &p.b, blocks_of_k<Config>(p.k)}, {.row = tile.row, .col = tile.col});
    });
    job.finish();
  };
  const auto store = [&] {
    StoreJob<Config, Element> job(shared);
    for_each_tile<Config, Results>(p, [&](const auto& tile) {
      const auto send_box = [&](const void* box, int row, int col) {
        const int bytes = tile.image.box_bytes(row, col);
        if (bytes == 0) return;
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, p.out + tile.byte + tile.image.box_offset(row, col),
                           box, static_cast<uint32_t>(bytes));
      };
      job.template store_one<Results>(tile.after, send_box);
    });
    job.finish_reads();
  };
  const auto multiply = [&] {
    MathsJob<Config, Element, BOrder::kKN, Staging::kImage, Results> job(shared);
    for_each_tile<Config, Results>(p, [&](const auto& tile) {
      job.multiply({.k_blocks = blocks_of_k<Config>(p.k), .row = tile.row, .col = tile.col, .cols = p.n - tile.col},
                   Plain{});
    });
    job.finish();
  };
  test::run_jobs<Config, Element>(shared, load, store, multiply);
}

struct ImageCase {
  int rows, n, k;
};

// Whole tiles; tails in rows, columns and k; one row; one vector of columns.
constexpr ImageCase kCases[] = {{256, 256, 64}, {300, 264, 136}, {1, 8, 8}, {129, 72, 712}, {65, 392, 72}};

template <class Config, class Out>
void expect_exact(const ImageCase& at, int blocks) {
  using Element = __nv_bfloat16;
  using Results = ResultBoxes<Config, sizeof(Out)>;
  SCOPED_TRACE(testing::Message() << Config::kTileM << "x" << Config::kTileN << ", " << at.rows << " rows, n " << at.n
                                  << ", k " << at.k << ", " << blocks << " blocks");
  constexpr size_t kGuard = 4096;  // bytes behind the last image, which nobody may touch
  const std::vector<Element> a = integers<Element>(static_cast<size_t>(at.rows) * at.k, 1);
  const std::vector<Element> b = integers<Element>(static_cast<size_t>(at.k) * at.n, 2);
  const size_t bytes = static_cast<size_t>(at.rows) * at.n * sizeof(Out);
  const std::vector<std::byte> poison(bytes + kGuard, std::byte{0xff});
  const DeviceArray on_a(a);
  const DeviceArray on_b(b);
  const DeviceArray out(poison);
  ImageParams params{};
  params.a =
      make_tensor_map(ShardedMatrix{on_a.data(), DType::kBf16, at.k, at.rows, 1}, Config::kTileK, Config::kTileM);
  params.b = make_right_map<Config, BOrder::kKN>(on_b.data(), DType::kBf16, at.n, at.k);
  params.out = out.data();
  params.rows = at.rows;
  params.n = at.n;
  params.k = at.k;
  test::launch_jobs<Config, Element>(image_kernel<Config, Element, Results>, params, blocks);

  const std::vector<std::byte> seen = out.read();
  const int tiles = ceil_div(at.rows, Config::kTileM) * ceil_div(at.n, Config::kTileN);
  for (int number = 0; number < tiles; ++number) {
    const auto tile = tile_at<Config, Results>(params, number);
    using Image = typename decltype(tile)::Image;
    for (int vector = 0; vector < tile.image.rows * tile.image.cols / Image::kVectorCols; ++vector) {
      const auto first = tile.image.element_of(vector);
      for (int i = 0; i < Image::kVectorCols; ++i) {
        const int row = tile.row + first.row;
        const int col = tile.col + first.col + i;
        float sum = 0;
        for (int k = 0; k < at.k; ++k) {
          sum += static_cast<float>(a[static_cast<size_t>(row) * at.k + k]) *
                 static_cast<float>(b[static_cast<size_t>(k) * at.n + col]);
        }
        Out value;
        std::memcpy(&value, &seen[tile.byte + vector * Image::kVectorBytes + i * sizeof(Out)], sizeof(Out));
        ASSERT_EQ(static_cast<float>(value), static_cast<float>(static_cast<Out>(sum))) << row << ", " << col;
      }
    }
  }
  EXPECT_EQ(std::memcmp(&seen[bytes], &poison[bytes], kGuard), 0) << "bytes behind the last image were written";
}

// On one block, which has all tiles, on a few, and on more than there are tiles.
template <class Config, class Out>
void expect_exact_in_all_cases() {
  for (const ImageCase& at : kCases) {
    for (const int blocks : {1, 3, 64}) expect_exact<Config, Out>(at, blocks);
  }
}

TEST(GpuImage, OfSixteenBitsIsExact) {
  MK_NEEDS_GPU();
  expect_exact_in_all_cases<GemmConfig<128, 256, 2, 1>, __nv_bfloat16>();
  expect_exact_in_all_cases<GemmConfig<64, 128, 1, 1>, __nv_bfloat16>();
}

TEST(GpuImage, OfFp32IsExact) {
  MK_NEEDS_GPU();
  expect_exact_in_all_cases<GemmConfig<128, 128, 2, 1>, float>();
  expect_exact_in_all_cases<GemmConfig<64, 128, 1, 1>, float>();
}

}  // namespace
}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// tests/cuda/gpu_bad_input_test.cc — what only a GPU refuses, with the argument's name, before any launch.
#include <gtest/gtest.h>

#include <functional>

#include "tests/cuda/gpu_launch.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

constexpr Shape kProblem{16, 16, 16};

void expect_refused(World& world, const char* named, const std::function<void(std::vector<AgGemmArgs>&)>& spoil) {
  AgGemmLaunch host(shape_of(world), kProblem, DType::kBf16, 1);
  GpuLaunch gpu(world, host);
  std::vector<AgGemmArgs> args = gpu.args();
  spoil(args);
  EXPECT_TRUE(refuses({named}, [&] { ag_gemm(world, args); }));
  EXPECT_TRUE(gpu_runs_right(world, kProblem, DType::kBf16, 1));
}

TEST(GpuBadInput, EachArgumentIsNamedAndTheWorldStaysUsable) {
  MK_NEEDS_GPU();
  World world = World::local(1, 2, DeviceKind::kCuda, {.timeout_ms = 5000});
  expect_refused(world, "n is 12", [](auto& args) {
    for (AgGemmArgs& of_rank : args) of_rank.b.cols = of_rank.c.cols = 12;
  });
  expect_refused(world, "k is 12", [](auto& args) {
    for (AgGemmArgs& of_rank : args) of_rank.a.cols = of_rank.b.rows = 12;
  });
  expect_refused(world, "dtype is fp32", [](auto& args) {
    for (AgGemmArgs& of_rank : args) of_rank.a.dtype = of_rank.b.dtype = of_rank.c.dtype = DType::kFp32;
  });
  expect_refused(world, "b of rank 1 is at",
                 [](auto& args) { args[1].b.data = static_cast<char*>(args[1].b.data) + 8; });
  expect_refused(world, "c of rank 0 is a null", [](auto& args) { args[0].c.data = nullptr; });
}

TEST(GpuBadInput, ABiasThatTmaWouldNotTakeIsNamed) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  AgGemmLaunch host(shape_of(world), kProblem, DType::kBf16, 1, Data::kExact, {.has_bias = true});
  const GpuLaunch gpu(world, host);
  std::vector<AgGemmArgs> args = gpu.args();
  args[1].bias.data = static_cast<char*>(args[1].bias.data) + 8;
  EXPECT_TRUE(refuses({"bias of rank 1 is at", "multiple of 16 bytes"}, [&] { ag_gemm(world, args); }));
}

TEST(GpuBadInput, TilesThatDoNotExistOrFitAreNamedAndTheWorldStaysUsable) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  AgGemmLaunch host(shape_of(world), kProblem, DType::kBf16, 1);
  const GpuLaunch gpu(world, host);
  const auto ask = [&](const TileSize& tile) { ag_gemm(world, gpu.args(), {{{"compute", 3}, {"intra", 2}}, tile}); };
  EXPECT_TRUE(refuses({"tile is 96x256x1", "128x256x2"}, [&] { ask({96, 256, 1}); }));
  EXPECT_TRUE(refuses({"tile is 128x0x0"}, [&] { ask({128, 0, 0}); }));
  EXPECT_TRUE(refuses({"tile.cluster is 2", "3 blocks that compute"}, [&] { ask({128, 256, 2}); }));
  EXPECT_TRUE(gpu_runs_right(world, kProblem, DType::kBf16, 1));
}

TEST(GpuBadInput, MoreRanksThanTheGpuHoldsAreRefused) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 25}, WorldShape{5, 5}, WorldShape{25, 1}}) {
    EXPECT_TRUE(refuses({"nodes x ranks", "holds at most"},
                        [&] { World::local(shape.nodes, shape.ranks, DeviceKind::kCuda); }));
  }
}

}  // namespace
}  // namespace mk::test

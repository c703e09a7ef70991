// SPDX-License-Identifier: MIT
// tests/cuda/gpu_bad_input_test.cc — what only a GPU refuses, with the argument's name, before any launch.
#include <gtest/gtest.h>

#include <functional>

#include "tests/cuda/gpu_launch.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

constexpr Shape kProblem{16, 16, 16};

class GpuBadInput : public testing::TestWithParam<Op> {
 protected:
  void expect_refused(World& world, const char* named, const std::function<void(std::vector<OpArgs>&)>& spoil) {
    OpLaunch host(op, shape_of(world), {kProblem, DType::kBf16});
    GpuLaunch gpu(world, host);
    std::vector<OpArgs> args = gpu.args();
    spoil(args);
    EXPECT_TRUE(refuses({named}, [&] { call(op, world, args); }));
    EXPECT_TRUE(gpu_runs_right(world, op, kProblem, {.dtype = DType::kBf16, .launches = 1}));
  }

  const Op op = GetParam();
};

INSTANTIATE_TEST_SUITE_P(All, GpuBadInput, testing::ValuesIn(kOps), case_name<testing::TestParamInfo<Op>>);

TEST_P(GpuBadInput, EachArgumentIsNamedAndTheWorldStaysUsable) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  expect_refused(world, "n is 12", [](auto& args) {
    for (OpArgs& own : args) own.in[1].cols = own.out[0].cols = 12;
  });
  expect_refused(world, "k is 12", [](auto& args) {
    for (OpArgs& own : args) own.in[0].cols = own.in[1].rows = 12;
  });
  expect_refused(world, "dtype is fp32", [](auto& args) {
    for (OpArgs& own : args) own.in[0].dtype = own.in[1].dtype = own.out[0].dtype = DType::kFp32;
  });
  expect_refused(world, "b of rank 1 is at",
                 [](auto& args) { args[1].in[1].data = static_cast<char*>(args[1].in[1].data) + 8; });
  expect_refused(world, "c of rank 0 is a null", [](auto& args) { args[0].out[0].data = nullptr; });
}

TEST(GpuRefusals, ABiasThatTmaWouldNotTakeIsNamed) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  OpLaunch host(Op::kAgGemm, {1, 2}, {kProblem, DType::kBf16, {.has_bias = true}});
  const GpuLaunch gpu(world, host);
  std::vector<OpArgs> args = gpu.args();
  args[1].in[2].data = static_cast<char*>(args[1].in[2].data) + 8;
  EXPECT_TRUE(refuses({"bias of rank 1 is at", "multiple of 16 bytes"}, [&] { call(Op::kAgGemm, world, args); }));
}

TEST(GpuRefusals, TilesThatDoNotExistOrFitAreNamedAndTheWorldStaysUsable) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  OpLaunch host(Op::kAgGemm, {1, 2}, {kProblem, DType::kBf16});
  const GpuLaunch gpu(world, host);
  const auto ask = [&](const TileSize& tile) { gpu.enqueue(world, {{{"compute", 3}, {"intra", 2}}, tile}); };
  EXPECT_TRUE(refuses({"tile is 96x256x1", "128x256x2"}, [&] { ask({96, 256, 1}); }));
  EXPECT_TRUE(refuses({"tile is 128x0x0"}, [&] { ask({128, 0, 0}); }));
  EXPECT_TRUE(refuses({"tile.cluster is 2", "3 blocks that compute"}, [&] { ask({128, 256, 2}); }));
  EXPECT_TRUE(gpu_runs_right(world, kProblem, DType::kBf16, 1));
}

TEST(GpuRefusals, MoreRanksThanTheGpuHoldsAreRefused) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 25}, WorldShape{5, 5}, WorldShape{25, 1}}) {
    EXPECT_TRUE(refuses({"nodes x ranks", "holds at most"},
                        [&] { World::local(shape.nodes, shape.ranks, DeviceKind::kCuda); }));
  }
}

}  // namespace
}  // namespace mk::test

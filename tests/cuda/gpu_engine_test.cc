// SPDX-License-Identifier: MIT
// tests/cuda/gpu_engine_test.cc — the GEMM engine by way of AllGather+GEMM: every tile, order of B and epilogue.
#include <gtest/gtest.h>

#include <tuple>

#include "target/sm90/gemm_config.h"
#include "tests/cuda/gpu_launch.h"
#include "tests/support/gemm_forms.h"

namespace mk::sm90 {

inline std::string name_of(const GemmTile& tile) {
  return std::to_string(tile.m) + "x" + std::to_string(tile.n) + "x" + std::to_string(tile.cluster);
}

}  // namespace mk::sm90

namespace mk::test {
namespace {

// Tails in m and n of every tile, inside a narrow box too; k of one block and less, of fewer blocks than a part has
// boxes, and of more than any pipeline has stages.
constexpr Shape kEngineShapes[] = {{300, 520, 8}, {129, 264, 136}, {65, 136, 712}, {64, 440, 328}, {1, 8, 64}};

class GpuEngine : public testing::TestWithParam<std::tuple<sm90::GemmTile, DType>> {
 protected:
  const sm90::GemmTile tile = std::get<0>(GetParam());
  const TileSize asked{tile.m, tile.n, tile.cluster};
  const DType dtype = std::get<1>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All, GpuEngine,
                         testing::Combine(testing::ValuesIn(sm90::kGemmTiles),
                                          testing::Values(DType::kBf16, DType::kFp16)),
                         joined_names);

// On all blocks, most of which have no tile, and on a pair, which has several.
TEST_P(GpuEngine, EveryTileIsExactInBothOrdersOfB) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 1});
  for (const Shape& shape : kEngineShapes) {
    for (const BOrder order : {BOrder::kKN, BOrder::kNK}) {
      for (const Split& split : {Split{}, Split{{"compute", 2}}}) {
        const RunOptions options{
            .dtype = dtype, .launches = 2, .split = split, .form = GemmForm{.b_order = order}, .tile = asked};
        EXPECT_TRUE(gpu_runs_right(world, Op::kAgGemm, shape, options))
            << ", compute " << (split.empty() ? 0 : split.at("compute"));
      }
    }
  }
}

// Blocks that communicate stand before those that compute, in clusters of their own.
TEST_P(GpuEngine, EveryTileIsExactInAWorldOfSeveralNodes) {
  MK_NEEDS_GPU();
  World world = gpu_world({2, 2});
  for (const Shape& shape : {Shape{130, 264, 72}, Shape{3, 136, 328}}) {
    const Split split{{"compute", 4}, {"intra", 8}, {"send", 2}};
    const RunOptions options{.dtype = dtype, .launches = 3, .split = split, .tile = asked};
    EXPECT_TRUE(gpu_runs_right(world, Op::kAgGemm, shape, options));
  }
}

// In the room that its buffers leave, a worker copies beside the jobs of a block.
TEST_P(GpuEngine, EveryTileIsExactBesideAWorkerThatCopies) {
  MK_NEEDS_GPU();
  if (asked.cluster > 1) GTEST_SKIP() << "a cluster's blocks have no room for it";
  World world = gpu_world({1, 4});
  for (const Shape& shape : {Shape{130, 264, 72}, Shape{3, 136, 328}, Shape{700, 264, 136}}) {
    const RunOptions options{.dtype = dtype, .launches = 3, .split = {{"compute", 4}}, .tile = asked};
    EXPECT_TRUE(gpu_runs_right(world, Op::kAgGemm, shape, options));
  }
}

class GpuEpilogue : public testing::TestWithParam<std::tuple<GemmForm, DType>> {
 protected:
  const GemmForm form = std::get<0>(GetParam());
  const DType dtype = std::get<1>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All, GpuEpilogue,
                         testing::Combine(testing::ValuesIn(kGemmForms), testing::Values(DType::kBf16, DType::kFp16)),
                         joined_names);

TEST_P(GpuEpilogue, UniformDataStayWithinTheBoundOfTheArithmetic) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 1}, WorldShape{2, 2}}) {
    World world = gpu_world(shape);
    for (const Shape& at : {Shape{1, 8, 8}, Shape{37, 72, 72}, Shape{129, 264, 136}}) {
      const RunOptions options{.dtype = dtype, .launches = 2, .data = Data::kUniform, .form = form};
      EXPECT_TRUE(gpu_runs_right(world, Op::kAgGemm, at, options));
    }
  }
}

// Exactly, if there is no activation; with one, sums in the hundreds meet both its flat ends.
TEST_P(GpuEpilogue, EveryTileIsRightWithWholeNumbers) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 1});
  for (const sm90::GemmTile& tile : sm90::kGemmTiles) {
    const RunOptions options{.dtype = dtype, .launches = 1, .form = form, .tile = {tile.m, tile.n, tile.cluster}};
    EXPECT_TRUE(gpu_runs_right(world, Op::kAgGemm, {129, 264, 136}, options)) << name_of(tile);
  }
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/bad_input/ag_gemm_bad_input_test.cc — what AllGather+GEMM alone takes is refused by name, too, if it is bad.
#include <gtest/gtest.h>

#include <utility>

#include "ops/ag_gemm/ag_gemm_problem.h"
#include "tests/bad_input/bad_call.h"

namespace mk::test {
namespace {

using Args = BadArgs;

Tensor& bias_of(OpArgs& args) { return args.in[2]; }

const BadCall kBadCalls[] = {
    {"MNotDivisible",
     {"m is 133", "multiple of the world size 4"},
     [](Args& a, auto&) {
       for (OpArgs& own : a) c_of(own).rows = 133;
     }},
    {"RowsOfOneBias", {"bias of rank 1 is 2x65; it must be 1x65"}, [](Args& a, auto&) { bias_of(a[1]).rows = 2; }},
    {"ColsOfOneBias", {"bias of rank 3 is 1x64; it must be 1x65"}, [](Args& a, auto&) { bias_of(a[3]).cols = 64; }},
    {"BiasThatStands",
     {"bias of rank 0 is 65x1"},
     [](Args& a, auto&) { std::swap(bias_of(a[0]).rows, bias_of(a[0]).cols); }},
    {"DTypeOfBias", {"bias of rank 2 is fp16"}, [](Args& a, auto&) { bias_of(a[2]).dtype = DType::kFp16; }},
    {"MisalignedBias",
     {"bias of rank 1", "multiple of 4 bytes"},
     [](Args& a, auto&) { bias_of(a[1]).data = shifted(bias_of(a[1]).data); }},
    {"ActivationUnknown",
     {"activation is 9", "kNone, kGelu or kSilu"},
     [](Args& a, auto&) {
       for (OpArgs& own : a) own.form.activation = static_cast<Activation>(9);
     }},
    {"ActivationOfOneRank",
     {"activation of rank 2 is GELU", "rank 0 has none"},
     [](Args& a, auto&) { a[2].form.activation = Activation::kGelu; }},
    {"ActivationUnknownOfOneRank",
     {"activation of rank 1 is unknown"},
     [](Args& a, auto&) { a[1].form.activation = static_cast<Activation>(9); }},
    {"TileOnACpu",
     {"tile is 128x256x1", "on a cpu"},
     [](auto&, OpSettings& settings) {
       settings.tile = {128, 256, 1};
     }},
    {"ClusterOnACpu", {"tile is 0x0x2", "on a cpu"}, [](auto&, OpSettings& settings) { settings.tile.cluster = 2; }},
    {"SplitWithoutIntra", {"split.intra is 0"}, with_workers(Op::kAgGemm, "intra", 0)},
    {"SplitWithoutSend", {"split.send is 0"}, with_workers(Op::kAgGemm, "send", 0)},
    {"SplitNegative", {"split.intra is -1"}, with_workers(Op::kAgGemm, "intra", -1)},
    {"SplitWithReduce", {"split.reduce is 1", "no such role"}, with_workers(Op::kAgGemm, "reduce", 1)},
};

class AgGemmBadInput : public testing::TestWithParam<BadCall> {};

INSTANTIATE_TEST_SUITE_P(Each, AgGemmBadInput, testing::ValuesIn(kBadCalls),
                         case_name<testing::TestParamInfo<BadCall>>);

TEST_P(AgGemmBadInput, IsRefusedByNameAndTheWorldWorksOn) { expect_refused(Op::kAgGemm, GetParam()); }

TEST(AgGemmWorkspace, MThatTheWorldDoesNotDivideIsRefused) {
  const World world = World::local(2, 2, DeviceKind::kCpu);
  EXPECT_TRUE(refuses({"m is 133"}, [&] { ag_gemm_workspace_bytes(world, 133, 8, 8, DType::kFp32); }));
}

// 2^30 · (2^31 - 1) elements of four bytes do not fit 63 bits.
TEST(AgGemmWorkspace, AShapeWhoseBytesOverflowIsRefused) {
  const World world = World::local(2, 2, DeviceKind::kCpu);
  EXPECT_TRUE(refuses({"1073741824"}, [&] {
    ag_gemm_workspace_bytes(world, int64_t{1} << 30, 1, (int64_t{1} << 31) - 1, DType::kFp32);
  }));
}

// As a GPU would be asked: which tiles there are is plain data.
TEST(AgGemmTile, OneThatDoesNotExistIsRefusedWithThoseThatDo) {
  const ag_gemm_op::Problem problem{{1, 1}, 512, 512, 64, DType::kBf16};
  const auto choose = [&](const TileSize& tile) {
    ag_gemm_op::choose_tile(problem, tile, DeviceKind::kCuda, ag_gemm_op::roster(0, 0, 132));
  };
  EXPECT_TRUE(refuses({"tile is 100x256x1", "128x256x2", "64x128x1"}, [&] { choose({100, 256, 1}); }));
  EXPECT_TRUE(refuses({"tile is 128x256x0"}, [&] { choose({128, 256, 0}); }));
  EXPECT_TRUE(refuses({"tile is 64x128x2"}, [&] { choose({64, 128, 2}); }));
  EXPECT_TRUE(refuses({"tile is -128x-256x-1"}, [&] { choose({-128, -256, -1}); }));
}

TEST(AgGemmTile, AClusterThatWouldStraddleTwoRolesIsRefused) {
  const ag_gemm_op::Problem problem{{1, 2}, 512, 512, 64, DType::kBf16};
  const auto choose = [&](const Roster& roles) {
    ag_gemm_op::choose_tile(problem, {128, 256, 2}, DeviceKind::kCuda, roles);
  };
  choose(ag_gemm_op::roster(16, 0, 62));  // two blocks of eight warps
  EXPECT_TRUE(refuses({"tile.cluster is 2", "62 blocks that compute and 1 that do not"},
                      [&] { choose(ag_gemm_op::roster(8, 0, 62)); }));
  EXPECT_TRUE(refuses({"tile.cluster is 2", "61 blocks that compute"}, [&] { choose(ag_gemm_op::roster(16, 0, 61)); }));
}

TEST(AgGemmSplit, RolesThatHaveNothingToDoAreRefused) {
  for (const auto& [shape, word] :
       {std::pair{WorldShape{1, 2}, "split.send is 1"}, std::pair{WorldShape{2, 1}, "split.intra is 1"}}) {
    World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
    OpLaunch launch(Op::kAgGemm, shape, {kBadCallShape});
    const OpSettings settings{.split = {{"compute", 1}, {"intra", 1}, {"send", 1}}};
    EXPECT_TRUE(refuses({word}, [&, world = &world] { enqueue(*world, launch, settings); }));
  }
}

}  // namespace
}  // namespace mk::test

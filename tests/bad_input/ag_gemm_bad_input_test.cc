// SPDX-License-Identifier: MIT
// tests/bad_input/ag_gemm_bad_input_test.cc — every bad argument is refused by name, and the World works on.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ops/ag_gemm/ag_gemm_problem.h"
#include "tests/support/ag_gemm_launch.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

constexpr WorldShape kWorld{2, 2};
constexpr Shape kShape{33, 65, 3};
constexpr int64_t kM = 132;
constexpr DType kNoDType = static_cast<DType>(9);

using Args = std::vector<AgGemmArgs>;

struct BadInput {
  const char* name;
  std::vector<std::string_view> words;  // all in the message
  std::function<void(Args&, AgGemmOptions&)> spoil;
};

void PrintTo(const BadInput& input, std::ostream* out) { *out << input.name; }

void* shifted(void* pointer) { return static_cast<std::byte*>(pointer) + 1; }

void set_m(Args& args, int64_t m) {
  for (AgGemmArgs& a : args) {
    a.c.rows = m;
    a.a.rows = m / kWorld.size();
  }
}
void set_n(Args& args, int64_t n) {
  for (AgGemmArgs& a : args) a.b.cols = a.c.cols = n;
}
void set_k(Args& args, int64_t k) {
  for (AgGemmArgs& a : args) a.a.cols = a.b.rows = k;
}
void set_order(Args& args, BOrder order) {
  for (AgGemmArgs& a : args) a.b_order = order;
}
void set_dtype(Args& args, DType dtype) {
  for (AgGemmArgs& a : args) a.a.dtype = a.b.dtype = a.c.dtype = dtype;
}

const BadInput kBadInputs[] = {
    {"MNotDivisible", {"m is 133", "multiple of the world size 4"}, [](Args& a, auto&) { set_m(a, 133); }},
    {"MZero", {"m is 0"}, [](Args& a, auto&) { set_m(a, 0); }},
    {"MNegative", {"m is -4"}, [](Args& a, auto&) { set_m(a, -4); }},
    {"NZero", {"n is 0"}, [](Args& a, auto&) { set_n(a, 0); }},
    {"NNegative", {"n is -65"}, [](Args& a, auto&) { set_n(a, -65); }},
    {"KZero", {"k is 0"}, [](Args& a, auto&) { set_k(a, 0); }},
    {"KNegative", {"k is -3"}, [](Args& a, auto&) { set_k(a, -3); }},
    {"MTooLarge", {"m is 4294967296"}, [](Args& a, auto&) { set_m(a, int64_t{1} << 32); }},
    {"NTooLarge", {"n is 2147483648"}, [](Args& a, auto&) { set_n(a, int64_t{1} << 31); }},
    {"KTooLarge", {"k is 2147483648"}, [](Args& a, auto&) { set_k(a, int64_t{1} << 31); }},
    {"NullA", {"a of rank 0", "null"}, [](Args& a, auto&) { a[0].a.data = nullptr; }},
    {"NullB", {"b of rank 3", "null"}, [](Args& a, auto&) { a[3].b.data = nullptr; }},
    {"NullC", {"c of rank 2", "null"}, [](Args& a, auto&) { a[2].c.data = nullptr; }},
    {"MisalignedA", {"a of rank 1", "multiple of 4 bytes"}, [](Args& a, auto&) { a[1].a.data = shifted(a[1].a.data); }},
    {"MisalignedB", {"b of rank 0", "multiple of 4 bytes"}, [](Args& a, auto&) { a[0].b.data = shifted(a[0].b.data); }},
    {"MisalignedC", {"c of rank 3", "multiple of 4 bytes"}, [](Args& a, auto&) { a[3].c.data = shifted(a[3].c.data); }},
    {"DTypeOfB", {"b of rank 0 is bf16"}, [](Args& a, auto&) { a[0].b.dtype = DType::kBf16; }},
    {"DTypeOfC", {"c of rank 1 is fp16"}, [](Args& a, auto&) { a[1].c.dtype = DType::kFp16; }},
    {"DTypeOfOneRank", {"a of rank 2 is bf16"}, [](Args& a, auto&) { a[2].a.dtype = DType::kBf16; }},
    {"DTypeUnknown", {"dtype"}, [](Args& a, auto&) { set_dtype(a, kNoDType); }},
    {"RowsOfOneA", {"a of rank 1 is 34x3", "33x3"}, [](Args& a, auto&) { a[1].a.rows = 34; }},
    {"ColsOfOneA", {"a of rank 3 is 33x4"}, [](Args& a, auto&) { a[3].a.cols = 4; }},
    {"RowsOfOneB", {"b of rank 0 is 2x65"}, [](Args& a, auto&) { a[0].b.rows = 2; }},
    {"ColsOfOneB", {"b of rank 2 is 3x64"}, [](Args& a, auto&) { a[2].b.cols = 64; }},
    {"RowsOfOneC", {"c of rank 2 is 128x65"}, [](Args& a, auto&) { a[2].c.rows = 128; }},
    {"ColsOfOneC", {"c of rank 0 is 132x66"}, [](Args& a, auto&) { a[0].c.cols = 66; }},
    {"TooFewArgs", {"args has 3 entries", "4 ranks"}, [](Args& a, auto&) { a.pop_back(); }},
    {"TooManyArgs", {"args has 5 entries", "4 ranks"}, [](Args& a, auto&) { a.push_back(a[0]); }},
    {"NoArgs", {"args has 0 entries"}, [](Args& a, auto&) { a.clear(); }},
    {"RowsOfOneBias", {"bias of rank 1 is 2x65; it must be 1x65"}, [](Args& a, auto&) { a[1].bias.rows = 2; }},
    {"ColsOfOneBias", {"bias of rank 3 is 1x64; it must be 1x65"}, [](Args& a, auto&) { a[3].bias.cols = 64; }},
    {"BiasThatStands", {"bias of rank 0 is 65x1"}, [](Args& a, auto&) { std::swap(a[0].bias.rows, a[0].bias.cols); }},
    {"DTypeOfBias", {"bias of rank 2 is fp16"}, [](Args& a, auto&) { a[2].bias.dtype = DType::kFp16; }},
    {"MisalignedBias",
     {"bias of rank 1", "multiple of 4 bytes"},
     [](Args& a, auto&) { a[1].bias.data = shifted(a[1].bias.data); }},
    {"OrderUnknown", {"b_order is 9"}, [](Args& a, auto&) { set_order(a, static_cast<BOrder>(9)); }},
    {"OrderOfOneRank", {"b_order of rank 3 is [N,K]"}, [](Args& a, auto&) { a[3].b_order = BOrder::kNK; }},
    {"OrderUnknownOfOneRank",
     {"b_order of rank 2 is unknown"},
     [](Args& a, auto&) { a[2].b_order = static_cast<BOrder>(9); }},
    {"OrderThatDoesNotFit", {"b of rank 0 is 3x65; it must be 3x3"}, [](Args& a, auto&) { set_order(a, BOrder::kNK); }},
    {"ActivationUnknown",
     {"activation is 9", "kNone, kGelu or kSilu"},
     [](Args& a, auto&) {
       for (AgGemmArgs& of_rank : a) of_rank.activation = static_cast<Activation>(9);
     }},
    {"ActivationOfOneRank",
     {"activation of rank 2 is GELU", "rank 0 has none"},
     [](Args& a, auto&) { a[2].activation = Activation::kGelu; }},
    {"ActivationUnknownOfOneRank",
     {"activation of rank 1 is unknown"},
     [](Args& a, auto&) { a[1].activation = static_cast<Activation>(9); }},
    {"TileOnACpu",
     {"tile is 128x256x1", "on a cpu"},
     [](auto&, AgGemmOptions& o) {
       o.tile = {128, 256, 1};
     }},
    {"ClusterOnACpu", {"tile is 0x0x2", "on a cpu"}, [](auto&, AgGemmOptions& o) { o.tile.cluster = 2; }},
    {"StreamOnACpu", {"stream of rank 1"}, [](Args& a, auto&) { a[1].stream = a[1].a.data; }},
    {"SplitWithoutCompute",
     {"split.compute is 0"},
     [](auto&, AgGemmOptions& o) {
       o.split = {{"compute", 0}, {"intra", 1}, {"send", 1}};
     }},
    {"SplitWithoutIntra",
     {"split.intra is 0"},
     [](auto&, AgGemmOptions& o) {
       o.split = {{"compute", 1}, {"intra", 0}, {"send", 1}};
     }},
    {"SplitWithoutSend",
     {"split.send is 0"},
     [](auto&, AgGemmOptions& o) {
       o.split = {{"compute", 1}, {"intra", 1}, {"send", 0}};
     }},
    {"SplitNegative",
     {"split.intra is -1"},
     [](auto&, AgGemmOptions& o) {
       o.split = {{"compute", 1}, {"intra", -1}, {"send", 1}};
     }},
    {"SplitTooLarge",
     {"split asks for 400"},
     [](auto&, AgGemmOptions& o) {
       o.split = {{"compute", 4000}, {"intra", 1}, {"send", 1}};
     }},
    {"SplitWithReduce",
     {"split.reduce is 1", "no such role"},
     [](auto&, AgGemmOptions& o) {
       o.split = {{"compute", 1}, {"intra", 1}, {"send", 1}, {"reduce", 1}};
     }},
    {"SplitOverflows",
     {"split"},
     [](auto&, AgGemmOptions& o) {
       o.split = {{"compute", 2147483647}, {"intra", 1}, {"send", 1}};
     }},
};

class AgGemmBadInput : public testing::TestWithParam<BadInput> {};

INSTANTIATE_TEST_SUITE_P(Each, AgGemmBadInput, testing::ValuesIn(kBadInputs),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(AgGemmBadInput, IsRefusedByNameAndTheWorldWorksOn) {
  World world = World::local(kWorld.nodes, kWorld.ranks, DeviceKind::kCpu);
  AgGemmLaunch launch(kWorld, kShape, DType::kFp32, 1, Data::kExact, {.has_bias = true});
  Args args = launch.args();
  AgGemmOptions options;
  GetParam().spoil(args, options);
  for (const std::string_view word : GetParam().words) {
    EXPECT_TRUE(refuses({word}, [&] { ag_gemm(world, args, options); }));
  }
  world.synchronize();
  for (int rank = 0; rank < kWorld.size(); ++rank) EXPECT_TRUE(launch.is_untouched(rank)) << "something was launched";
  EXPECT_FALSE(world.failed());
  EXPECT_TRUE(runs_right(world, kShape));
}

TEST(AgGemmWorkspace, RefusesTheSameShapesByName) {
  const World world = World::local(2, 2, DeviceKind::kCpu);
  const auto ask = [&](int64_t m, int64_t n, int64_t k) { ag_gemm_workspace_bytes(world, m, n, k, DType::kFp32); };
  EXPECT_TRUE(refuses({"m is 133"}, [&] { ask(133, 8, 8); }));
  EXPECT_TRUE(refuses({"m is 0"}, [&] { ask(0, 8, 8); }));
  EXPECT_TRUE(refuses({"n is -1"}, [&] { ask(kM, -1, 8); }));
  EXPECT_TRUE(refuses({"k is 0"}, [&] { ask(kM, 8, 0); }));
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

TEST(SplitInOneNode, RolesThatHaveNothingToDoAreRefused) {
  World world = World::local(1, 2, DeviceKind::kCpu);
  AgGemmLaunch launch({1, 2}, kShape, DType::kFp32, 1);
  EXPECT_TRUE(refuses({"split.send is 1"}, [&] {
    enqueue(world, launch, {{"compute", 1}, {"intra", 1}, {"send", 1}});
  }));
}

TEST(SplitInOneRankNodes, RolesThatHaveNothingToDoAreRefused) {
  World world = World::local(2, 1, DeviceKind::kCpu);
  AgGemmLaunch launch({2, 1}, kShape, DType::kFp32, 1);
  EXPECT_TRUE(refuses({"split.intra is 1"}, [&] {
    enqueue(world, launch, {{"compute", 1}, {"intra", 1}, {"send", 1}});
  }));
}

}  // namespace
}  // namespace mk::test

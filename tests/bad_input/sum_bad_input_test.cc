// SPDX-License-Identifier: MIT
// tests/bad_input/sum_bad_input_test.cc — operators that sum over ranks refuse every bad argument by name.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "ops/gemm_ar/gemm_ar_targets.h"
#include "ops/gemm_rs/gemm_rs_targets.h"
#include "tests/support/expect_error.h"
#include "tests/support/sum_launch.h"

namespace mk::test {
namespace {

constexpr WorldShape kWorld{2, 2};
constexpr Shape kShape{33, 65, 3};
constexpr int64_t kM = 132;

using Args = std::vector<GemmArgs>;

struct BadSum {
  const char* name;
  std::vector<std::string_view> words;  // all in the message
  std::function<void(Args&, Split&)> spoil;
};

std::string name_of(const BadSum& input) { return input.name; }
void PrintTo(const BadSum& input, std::ostream* out) { *out << input.name; }

void* shifted(void* pointer) { return static_cast<std::byte*>(pointer) + 1; }

void set_m(Args& args, int64_t m) {
  for (GemmArgs& a : args) a.a.rows = m;
}
void set_n(Args& args, int64_t n) {
  for (GemmArgs& a : args) a.b.cols = a.c.cols = n;
}
void set_k(Args& args, int64_t k) {
  for (GemmArgs& a : args) a.a.cols = a.b.rows = k;
}
void set_dtype(Args& args, DType dtype) {
  for (GemmArgs& a : args) a.a.dtype = a.b.dtype = a.c.dtype = dtype;
}
void set_order(Args& args, BOrder order) {
  for (GemmArgs& a : args) a.b_order = order;
}

// The split of the whole operator with one role set.
std::function<void(Args&, Split&)> with(const char* role, int count) {
  return [=](Args&, Split& split) { split[role] = count; };
}

const BadSum kBadSums[] = {
    {"MZero", {"m is 0"}, [](Args& a, Split&) { set_m(a, 0); }},
    {"MNegative", {"m is -4"}, [](Args& a, Split&) { set_m(a, -4); }},
    {"NZero", {"n is 0"}, [](Args& a, Split&) { set_n(a, 0); }},
    {"NNegative", {"n is -65"}, [](Args& a, Split&) { set_n(a, -65); }},
    {"KZero", {"k is 0"}, [](Args& a, Split&) { set_k(a, 0); }},
    {"KNegative", {"k is -3"}, [](Args& a, Split&) { set_k(a, -3); }},
    {"MTooLarge", {"m is 4294967296"}, [](Args& a, Split&) { set_m(a, int64_t{1} << 32); }},
    {"NTooLarge", {"n is 2147483648"}, [](Args& a, Split&) { set_n(a, int64_t{1} << 31); }},
    {"KTooLarge", {"k is 2147483648"}, [](Args& a, Split&) { set_k(a, int64_t{1} << 31); }},
    {"NullA", {"a of rank 0", "null"}, [](Args& a, Split&) { a[0].a.data = nullptr; }},
    {"NullB", {"b of rank 3", "null"}, [](Args& a, Split&) { a[3].b.data = nullptr; }},
    {"NullC", {"c of rank 2", "null"}, [](Args& a, Split&) { a[2].c.data = nullptr; }},
    {"MisalignedA", {"a of rank 1", "multiple of 4"}, [](Args& a, Split&) { a[1].a.data = shifted(a[1].a.data); }},
    {"MisalignedB", {"b of rank 0", "multiple of 4"}, [](Args& a, Split&) { a[0].b.data = shifted(a[0].b.data); }},
    {"MisalignedC", {"c of rank 3", "multiple of 4"}, [](Args& a, Split&) { a[3].c.data = shifted(a[3].c.data); }},
    {"DTypeOfB", {"b of rank 0 is bf16"}, [](Args& a, Split&) { a[0].b.dtype = DType::kBf16; }},
    {"DTypeOfC", {"c of rank 1 is fp16"}, [](Args& a, Split&) { a[1].c.dtype = DType::kFp16; }},
    {"DTypeOfOneRank", {"a of rank 2 is bf16"}, [](Args& a, Split&) { a[2].a.dtype = DType::kBf16; }},
    {"DTypeUnknown", {"dtype"}, [](Args& a, Split&) { set_dtype(a, static_cast<DType>(9)); }},
    {"OrderUnknown", {"b_order is 9"}, [](Args& a, Split&) { set_order(a, static_cast<BOrder>(9)); }},
    {"OrderOfOneRank", {"b_order of rank 3 is [N,K]"}, [](Args& a, Split&) { a[3].b_order = BOrder::kNK; }},
    {"OrderThatDoesNotFit",
     {"b of rank 0 is 3x65; it must be 3x3"},
     [](Args& a, Split&) { set_order(a, BOrder::kNK); }},
    {"RowsOfOneA", {"a of rank 1 is 131x3", "132x3"}, [](Args& a, Split&) { a[1].a.rows = 131; }},
    {"ColsOfOneA", {"a of rank 3 is 132x4"}, [](Args& a, Split&) { a[3].a.cols = 4; }},
    {"RowsOfOneB", {"b of rank 1 is 2x65"}, [](Args& a, Split&) { a[1].b.rows = 2; }},
    {"ColsOfOneB", {"b of rank 2 is 3x64"}, [](Args& a, Split&) { a[2].b.cols = 64; }},
    {"RowsOfOneC", {"c of rank 2 is 7x65"}, [](Args& a, Split&) { a[2].c.rows = 7; }},
    {"ColsOfOneC", {"c of rank 0 is", "x66"}, [](Args& a, Split&) { a[0].c.cols = 66; }},
    {"TooFewArgs", {"args has 3 entries", "4 ranks"}, [](Args& a, Split&) { a.pop_back(); }},
    {"TooManyArgs", {"args has 5 entries", "4 ranks"}, [](Args& a, Split&) { a.push_back(a[0]); }},
    {"NoArgs", {"args has 0 entries"}, [](Args& a, Split&) { a.clear(); }},
    {"StreamOnACpu", {"stream of rank 1"}, [](Args& a, Split&) { a[1].stream = a[1].a.data; }},
    {"SplitWithoutCompute", {"split.compute is 0", "at least 1"}, with("compute", 0)},
    {"SplitWithoutReduce", {"split.reduce is 0", "at least 1"}, with("reduce", 0)},
    {"SplitWithSend", {"split.send is 1", "no such role"}, with("send", 1)},
    {"SplitNegative", {"split.reduce is -1"}, with("reduce", -1)},
    {"SplitTooLarge", {"split asks for 4000"}, with("compute", 4000)},
    {"SplitOverflows", {"split asks for 2147483647"}, with("compute", 2147483647)},
};

class SumBadInput : public testing::TestWithParam<std::tuple<SumOp, BadSum>> {};

INSTANTIATE_TEST_SUITE_P(Each, SumBadInput, testing::Combine(testing::ValuesIn(kSumOps), testing::ValuesIn(kBadSums)),
                         joined_names);

TEST_P(SumBadInput, IsRefusedByNameAndTheWorldWorksOn) {
  const auto& [op, input] = GetParam();
  World world = World::local(kWorld.nodes, kWorld.ranks, DeviceKind::kCpu);
  SumLaunch launch(kWorld, {op, kShape}, 1);
  Args args = launch.args();
  Split split = smallest_split(op, kWorld);
  input.spoil(args, split);
  for (const std::string_view word : input.words) {
    EXPECT_TRUE(refuses({word}, [&, op = op] { call(op, world, args, split); }));
  }
  world.synchronize();
  for (int rank = 0; rank < kWorld.size(); ++rank) EXPECT_TRUE(launch.is_untouched(rank)) << "something was launched";
  EXPECT_FALSE(world.failed());
  EXPECT_TRUE(runs_right(world, op, kShape, {.launches = 1}));
}

TEST(RsBadInput, MThatTheWorldDoesNotDivideIsRefused) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  SumLaunch launch(kWorld, {SumOp::kGemmRs, kShape}, 1);
  Args args = launch.args();
  set_m(args, 133);
  EXPECT_TRUE(refuses({"m is 133", "multiple of the world size 4"}, [&] { gemm_rs(world, args); }));
  EXPECT_TRUE(refuses({"m is 133"}, [&] { gemm_rs_workspace_bytes(world, 133, 8, 8, DType::kFp32); }));
}

TEST(RsBadInput, RolesThatHaveNothingToDoAreRefused) {
  World alone = World::local(1, 1, DeviceKind::kCpu);
  SumLaunch launch({1, 1}, {SumOp::kGemmRs, kShape}, 1);
  EXPECT_TRUE(refuses({"split.reduce is 1", "takes 0"}, [&] {
    enqueue(alone, launch, {{"compute", 1}, {"reduce", 1}});
  }));
  World world = World::local(1, 2, DeviceKind::kCpu);
  SumLaunch other({1, 2}, {SumOp::kGemmRs, kShape}, 1);
  EXPECT_TRUE(refuses({"split.intra is 1", "gemm_rs has no such role: it has reduce, compute"}, [&] {
    enqueue(world, other, {{"compute", 1}, {"intra", 1}, {"reduce", 1}});
  }));
}

TEST(RsWorkspace, RefusesTheSameShapesByName) {
  const World world = World::local(2, 2, DeviceKind::kCpu);
  const auto ask = [&](int64_t m, int64_t n, int64_t k) { gemm_rs_workspace_bytes(world, m, n, k, DType::kFp32); };
  EXPECT_TRUE(refuses({"m is 0"}, [&] { ask(0, 8, 8); }));
  EXPECT_TRUE(refuses({"n is -1"}, [&] { ask(kM, -1, 8); }));
  EXPECT_TRUE(refuses({"k is 0"}, [&] { ask(kM, 8, 0); }));
  EXPECT_TRUE(refuses({"m, n and k"}, [&] { ask(int64_t{1} << 30, int64_t{1} << 30, 1); }));
  EXPECT_TRUE(refuses({"m and n are", "tiles"}, [&] { ask(int64_t{1} << 30, int64_t{1} << 20, 1); }));
}

TEST(ArBadInput, MThatTheWorldDoesNotDivideIsRefusedInTwoShotsOnly) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  SumLaunch launch(kWorld, {.op = SumOp::kGemmArOneShot, .shape = kShape, .more_rows = 1}, 1);
  const Args args = launch.args();
  EXPECT_TRUE(refuses({"m is 133", "in two shots", "multiple of the world size 4"},
                      [&] { gemm_ar(world, args, {.path = AllReducePath::kTwoShot}); }));
  EXPECT_TRUE(refuses({"m is 100001", "multiple of the world size 4"},
                      [&] { gemm_ar_workspace_bytes(world, 100001, 64, 8, DType::kFp32); }));
  gemm_ar(world, args);  // small: one shot
  world.synchronize();
  EXPECT_TRUE(launch.is_right());
}

TEST(ArBadInput, APathThatDoesNotExistIsRefused) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  SumLaunch launch(kWorld, {SumOp::kGemmAr, kShape}, 1);
  EXPECT_TRUE(refuses({"path is 7"}, [&] { gemm_ar(world, launch.args(), {.path = static_cast<AllReducePath>(7)}); }));
}

TEST(ArBadInput, RolesThatAPathHasNoUseForAreRefused) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  SumLaunch launch(kWorld, {SumOp::kGemmArOneShot, kShape}, 1);
  EXPECT_TRUE(refuses({"split.intra is 1", "in one shot has no such role"}, [&] {
    enqueue(world, launch, {{"compute", 1}, {"intra", 1}, {"reduce", 1}});
  }));
  SumLaunch other(kWorld, {SumOp::kGemmAr, kShape}, 1);
  EXPECT_TRUE(refuses({"split.intra is 0", "in two shots", "at least 1"}, [&] {
    enqueue(world, other, {{"compute", 1}, {"reduce", 1}});
  }));
}

TEST(ArWorkspace, OneShotThatWouldOverflowIsRefused) {
  const World world = World::local(2, 2, DeviceKind::kCpu);
  EXPECT_TRUE(refuses({"m and n are", "one shot"}, [&] {
    gemm_ar_workspace_bytes(world, int64_t{1} << 30, int64_t{1} << 25, 1, DType::kFp32, AllReducePath::kOneShot);
  }));
}

}  // namespace
}  // namespace mk::test

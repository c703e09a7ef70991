// SPDX-License-Identifier: MIT
// tests/bad_input/sum_bad_input_test.cc — what GEMM+ReduceScatter and GEMM+AllReduce alone refuse: paths, roles, rows.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "tests/bad_input/bad_call.h"

namespace mk::test {
namespace {

constexpr Op kSums[] = {Op::kGemmRs, Op::kGemmAr, Op::kGemmArOneShot};

std::vector<std::tuple<Op, BadCall>> bad_calls() {
  std::vector<std::tuple<Op, BadCall>> all;
  for (const Op op : kSums) {
    all.push_back({op, {"SplitWithoutReduce", {"split.reduce is 0", "at least 1"}, with_workers(op, "reduce", 0)}});
    all.push_back({op, {"SplitWithSend", {"split.send is 1", "no such role"}, with_workers(op, "send", 1)}});
    all.push_back({op, {"SplitNegative", {"split.reduce is -1"}, with_workers(op, "reduce", -1)}});
  }
  return all;
}

class SumBadInput : public testing::TestWithParam<std::tuple<Op, BadCall>> {};

INSTANTIATE_TEST_SUITE_P(Each, SumBadInput, testing::ValuesIn(bad_calls()), joined_names);

TEST_P(SumBadInput, IsRefusedByNameAndTheWorldWorksOn) {
  const auto& [op, bad] = GetParam();
  expect_refused(op, bad);
}

TEST(RsBadInput, MThatTheWorldDoesNotDivideIsRefused) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  OpLaunch launch(Op::kGemmRs, kBadCallWorld, {kBadCallShape});
  std::vector<OpArgs> args = launch.args();
  for (OpArgs& own : args) a_of(own).rows = 133;
  EXPECT_TRUE(refuses({"m is 133", "multiple of the world size 4"}, [&] { call(Op::kGemmRs, world, args); }));
  EXPECT_TRUE(refuses({"m is 133"}, [&] { gemm_rs_workspace_bytes(world, 133, 8, 8, DType::kFp32); }));
}

TEST(RsBadInput, RolesThatHaveNothingToDoAreRefused) {
  World alone = World::local(1, 1, DeviceKind::kCpu);
  OpLaunch launch(Op::kGemmRs, {1, 1}, {kBadCallShape});
  EXPECT_TRUE(refuses({"split.reduce is 1", "takes 0"}, [&] {
    enqueue(alone, launch, {{{"compute", 1}, {"reduce", 1}}});
  }));
  World world = World::local(1, 2, DeviceKind::kCpu);
  OpLaunch other(Op::kGemmRs, {1, 2}, {kBadCallShape});
  EXPECT_TRUE(refuses({"split.intra is 1", "gemm_rs has no such role: it has reduce, compute"}, [&] {
    enqueue(world, other, {{{"compute", 1}, {"intra", 1}, {"reduce", 1}}});
  }));
}

TEST(RsWorkspace, SizesWhoseProductsOverflowAreRefused) {
  const World world = World::local(2, 2, DeviceKind::kCpu);
  const auto ask = [&](int64_t m, int64_t n, int64_t k) { gemm_rs_workspace_bytes(world, m, n, k, DType::kFp32); };
  EXPECT_TRUE(refuses({"m, n and k"}, [&] { ask(int64_t{1} << 30, int64_t{1} << 30, 1); }));
  EXPECT_TRUE(refuses({"m and n are", "tiles"}, [&] { ask(int64_t{1} << 30, int64_t{1} << 20, 1); }));
}

TEST(ArBadInput, MThatTheWorldDoesNotDivideIsRefusedInTwoShotsOnly) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  OpLaunch launch(Op::kGemmArOneShot, kBadCallWorld, {.shape = kBadCallShape, .more_rows = 1});
  const std::vector<OpArgs> args = launch.args();
  EXPECT_TRUE(
      refuses({"m is 133", "in two shots", "multiple of the world size 4"}, [&] { call(Op::kGemmAr, world, args); }));
  EXPECT_TRUE(refuses({"m is 100001", "multiple of the world size 4"},
                      [&] { gemm_ar_workspace_bytes(world, 100001, 64, 8, DType::kFp32); }));
  gemm_ar(world, gemm_args_of(args));  // small: one shot
  world.synchronize();
  EXPECT_TRUE(launch.is_right());
}

TEST(ArBadInput, APathThatDoesNotExistIsRefused) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  OpLaunch launch(Op::kGemmAr, kBadCallWorld, {kBadCallShape});
  const std::vector<GemmArgs> args = gemm_args_of(launch.args());
  EXPECT_TRUE(refuses({"path is 7"}, [&] { gemm_ar(world, args, {.path = static_cast<AllReducePath>(7)}); }));
}

TEST(ArBadInput, RolesThatAPathHasNoUseForAreRefused) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  OpLaunch launch(Op::kGemmArOneShot, kBadCallWorld, {kBadCallShape});
  EXPECT_TRUE(refuses({"split.intra is 1", "in one shot has no such role"}, [&] {
    enqueue(world, launch, {{{"compute", 1}, {"intra", 1}, {"reduce", 1}}});
  }));
  OpLaunch other(Op::kGemmAr, kBadCallWorld, {kBadCallShape});
  EXPECT_TRUE(refuses({"split.intra is 0", "in two shots", "at least 1"}, [&] {
    enqueue(world, other, {{{"compute", 1}, {"reduce", 1}}});
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

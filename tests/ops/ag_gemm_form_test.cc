// SPDX-License-Identifier: MIT
// tests/ops/ag_gemm_form_test.cc — what AllGather+GEMM alone has: bias and activation, and splits of its three roles.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "tests/support/gemm_forms.h"
#include "tests/support/op_launch.h"

namespace mk::test {
namespace {

class AgGemmForm : public testing::TestWithParam<std::tuple<GemmForm, DType>> {};

INSTANTIATE_TEST_SUITE_P(Forms, AgGemmForm, testing::Combine(testing::ValuesIn(kGemmForms), testing::ValuesIn(kDTypes)),
                         joined_names);

// Exactly, if there is no activation.
TEST_P(AgGemmForm, WholeNumbersComeOutRightInEveryShape) {
  const auto& [form, dtype] = GetParam();
  World world = World::local(2, 3, DeviceKind::kCpu);
  for (const Shape& at : kShapes) {
    EXPECT_TRUE(runs_right(world, Op::kAgGemm, at, {.dtype = dtype, .launches = 2, .form = form}));
  }
}

TEST_P(AgGemmForm, UniformDataStayWithinTheBoundOfTheArithmetic) {
  const auto& [form, dtype] = GetParam();
  World world = World::local(1, 2, DeviceKind::kCpu);
  for (const Shape& at : kShapes) {
    const RunOptions options{.dtype = dtype, .launches = 1, .data = Data::kUniform, .form = form};
    EXPECT_TRUE(runs_right(world, Op::kAgGemm, at, options));
  }
}

// They have one plan: what a plan keeps does not depend on the form.
TEST(AgGemmForms, MayAlternateInOneWorldWithNoWaitBetween) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  EXPECT_TRUE(all_run_right(world, static_cast<int>(kGemmForms.size()), [](int i) {
    return OpLaunch(Op::kAgGemm, {2, 2}, {{33, 65, 17}, DType::kBf16, kGemmForms[i]}, i);
  }));
}

struct SplitCase {
  WorldShape world;
  Split split;
};

class AgGemmSplit : public testing::TestWithParam<SplitCase> {};

// Up to the five workers every CPU rank has.
INSTANTIATE_TEST_SUITE_P(Splits, AgGemmSplit,
                         testing::Values(SplitCase{{1, 1}, {{"compute", 1}}}, SplitCase{{1, 1}, {{"compute", 3}}},
                                         SplitCase{{1, 3}, {{"compute", 1}, {"intra", 4}}},
                                         SplitCase{{1, 3}, {{"compute", 3}, {"intra", 2}}},
                                         SplitCase{{2, 1}, {{"compute", 1}, {"send", 1}}},
                                         SplitCase{{2, 1}, {{"compute", 1}, {"send", 3}}},
                                         SplitCase{{2, 3}, {{"compute", 1}, {"intra", 1}, {"send", 1}}},
                                         SplitCase{{2, 3}, {{"compute", 2}, {"intra", 1}, {"send", 1}}},
                                         SplitCase{{2, 3}, {{"compute", 1}, {"intra", 2}, {"send", 1}}},
                                         SplitCase{{3, 2}, {{"compute", 1}, {"intra", 1}, {"send", 2}}},
                                         SplitCase{{3, 2}, {{"compute", 1}, {"intra", 3}, {"send", 1}}}));

TEST_P(AgGemmSplit, ResultDoesNotDependOnIt) {
  const auto& [shape, split] = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
  EXPECT_TRUE(runs_right(world, Op::kAgGemm, {97, 65, 3}, {.split = split}));
}

}  // namespace
}  // namespace mk::test

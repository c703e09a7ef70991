// SPDX-License-Identifier: MIT
// tests/ops/ag_gemm_exact_test.cc — AllGather+GEMM on CPU threads, element by element.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "tests/support/ag_gemm_launch.h"

namespace mk::test {
namespace {

using WorldAndDType = std::tuple<WorldShape, DType>;

class AgGemm : public testing::TestWithParam<WorldAndDType> {
 protected:
  const WorldShape shape = std::get<0>(GetParam());
  const DType dtype = std::get<1>(GetParam());
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
};

std::string world_and_dtype(const testing::TestParamInfo<WorldAndDType>& info) {
  return name_of(std::get<0>(info.param)) + "_" + name_of(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Worlds, AgGemm, testing::Combine(testing::ValuesIn(kWorlds), testing::ValuesIn(kDTypes)),
                         world_and_dtype);

TEST_P(AgGemm, FiveQueuedLaunchesOfWholeNumbersAreExact) {
  for (const Shape& at : kShapes) EXPECT_TRUE(runs_right(world, at, {.dtype = dtype}));
}

TEST_P(AgGemm, UniformDataStayWithinTheBoundOfTheArithmetic) {
  for (const Shape& at : kShapes) {
    EXPECT_TRUE(runs_right(world, at, {.dtype = dtype, .launches = 1, .data = Data::kUniform}));
  }
}

class AgGemmForm : public testing::TestWithParam<std::tuple<GemmForm, DType>> {};

INSTANTIATE_TEST_SUITE_P(Forms, AgGemmForm, testing::Combine(testing::ValuesIn(kGemmForms), testing::ValuesIn(kDTypes)),
                         joined_names);

// Exactly, if there is no activation.
TEST_P(AgGemmForm, WholeNumbersComeOutRightInEveryShape) {
  const auto& [form, dtype] = GetParam();
  World world = World::local(2, 3, DeviceKind::kCpu);
  for (const Shape& at : kShapes) EXPECT_TRUE(runs_right(world, at, {.dtype = dtype, .launches = 2, .form = form}));
}

TEST_P(AgGemmForm, UniformDataStayWithinTheBoundOfTheArithmetic) {
  const auto& [form, dtype] = GetParam();
  World world = World::local(1, 2, DeviceKind::kCpu);
  for (const Shape& at : kShapes) {
    EXPECT_TRUE(runs_right(world, at, {.dtype = dtype, .launches = 1, .data = Data::kUniform, .form = form}));
  }
}

// They have one plan: what a plan keeps does not depend on the form.
TEST(AgGemmForms, MayAlternateInOneWorldWithNoWaitBetween) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  std::vector<AgGemmLaunch> launches;
  for (const GemmForm& form : kGemmForms) {
    launches.emplace_back(shape_of(world), Shape{33, 65, 17}, DType::kBf16, launches.size(), Data::kExact, form);
    enqueue(world, launches.back());
  }
  world.synchronize();
  for (const AgGemmLaunch& launch : launches) EXPECT_TRUE(launch.is_right());
}

}  // namespace
}  // namespace mk::test

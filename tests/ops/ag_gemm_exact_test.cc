// SPDX-License-Identifier: MIT
// tests/ops/ag_gemm_exact_test.cc — AllGather+GEMM on CPU threads, element by element.
#include <gtest/gtest.h>

#include <tuple>

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

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/ops/sum_exact_test.cc — operators that sum over ranks, on CPU threads, element by element.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/sum_launch.h"

namespace mk::test {
namespace {

using OpWorldDType = std::tuple<SumOp, WorldShape, DType>;

class Sum : public testing::TestWithParam<OpWorldDType> {
 protected:
  World new_world() const { return World::local(shape.nodes, shape.ranks, DeviceKind::kCpu); }

  const SumOp op = std::get<0>(GetParam());
  const WorldShape shape = std::get<1>(GetParam());
  const DType dtype = std::get<2>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Worlds, Sum,
                         testing::Combine(testing::ValuesIn(kSumOps), testing::ValuesIn(kWorlds),
                                          testing::ValuesIn(kDTypes)),
                         joined_names);

TEST_P(Sum, FiveQueuedLaunchesOfWholeNumbersHaveTheBitsTheArithmeticSays) {
  World world = new_world();
  for (const Shape& at : kSumShapes) EXPECT_TRUE(runs_right(world, op, at, {.dtype = dtype}));
}

TEST_P(Sum, UniformDataStayWithinTheBoundOfTheArithmetic) {
  World world = new_world();
  for (const Shape& at : kSumShapes) {
    EXPECT_TRUE(runs_right(world, op, at, {.dtype = dtype, .launches = 1, .data = Data::kUniform}));
  }
}

// In another World and with another split: a sum has one order.
TEST_P(Sum, RunsOfTheSameDataGiveTheSameBits) {
  const SumCase at{op, {33, 65, 37}, dtype};
  SumLaunch first(shape, at, 1, Data::kUniform);
  SumLaunch second(shape, at, 1, Data::kUniform);
  World world = new_world();
  World other = new_world();
  enqueue(world, first);
  enqueue(other, second, smallest_split(op, shape));
  world.synchronize();
  other.synchronize();
  EXPECT_TRUE(first.has_the_same_bits(second));
}

}  // namespace
}  // namespace mk::test

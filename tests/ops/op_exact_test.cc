// SPDX-License-Identifier: MIT
// tests/ops/op_exact_test.cc — every operator on CPU threads, element by element.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/op_launch.h"

namespace mk::test {
namespace {

class Exact : public testing::TestWithParam<std::tuple<Op, WorldShape, DType>> {
 protected:
  World new_world() const { return World::local(shape.nodes, shape.ranks, DeviceKind::kCpu); }

  const Op op = std::get<0>(GetParam());
  const WorldShape shape = std::get<1>(GetParam());
  const DType dtype = std::get<2>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Worlds, Exact,
                         testing::Combine(testing::ValuesIn(kOps), testing::ValuesIn(kWorlds),
                                          testing::ValuesIn(kDTypes)),
                         joined_names);

TEST_P(Exact, FiveQueuedLaunchesOfWholeNumbersHaveTheBitsTheArithmeticSays) {
  World world = new_world();
  for (const Shape& at : row_of(op).sizes().exact) EXPECT_TRUE(runs_right(world, op, at, {.dtype = dtype}));
}

TEST_P(Exact, UniformDataStayWithinTheBoundOfTheArithmetic) {
  World world = new_world();
  for (const Shape& at : row_of(op).sizes().exact) {
    EXPECT_TRUE(runs_right(world, op, at, {.dtype = dtype, .launches = 1, .data = Data::kUniform}));
  }
}

// In another World and with another split: a sum has one order.
TEST_P(Exact, RunsOfTheSameDataGiveTheSameBits) {
  const OpCase at{{33, 65, 37}, dtype};
  OpLaunch first(op, shape, at, 1, Data::kUniform);
  OpLaunch second(op, shape, at, 1, Data::kUniform);
  World world = new_world();
  World other = new_world();
  enqueue(world, first);
  enqueue(other, second, {row_of(op).smallest_split(shape)});
  world.synchronize();
  other.synchronize();
  EXPECT_TRUE(first.has_the_same_bits(second));
}

}  // namespace
}  // namespace mk::test

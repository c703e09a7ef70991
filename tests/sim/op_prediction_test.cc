// SPDX-License-Identifier: MIT
// tests/sim/op_prediction_test.cc — predictions of every operator count the formula's bytes.
#include <gtest/gtest.h>

#include <tuple>

#include "ops/prediction.h"
#include "tests/sim/op_runs.h"

namespace mk::test {
namespace {

class OpPrediction : public testing::TestWithParam<std::tuple<Op, WorldShape>> {};

INSTANTIATE_TEST_SUITE_P(Worlds, OpPrediction, testing::Combine(testing::ValuesIn(kOps), testing::ValuesIn(kWorlds)),
                         joined_names);

TEST_P(OpPrediction, MovesTheBytesOfTheFormulaAndIsNoFasterThanItsBound) {
  const auto& [op, world] = GetParam();
  const OpCut cut{{300, 520, 64}, Tiling::kGpu, row_of(op).cut_splits()[1]};
  const auto run = simulated(op, world, cut, 1);
  ASSERT_FALSE(run->core().stopped()) << run->core().complaints().front().text;
  const double rows = static_cast<double>(cut.shape.shard_rows * world.size());
  const Prediction p = predict(*run, 2.0 * rows * static_cast<double>(cut.shape.n * cut.shape.k));
  const Traffic expected = row_of(op).expected_traffic(world, {cut.shape, cut.dtype});
  EXPECT_EQ(p.nvlink_bytes, expected.nvlink_bytes);
  EXPECT_EQ(p.network_bytes, expected.network_bytes);
  EXPECT_GE(p.time_us, p.bound_us());
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/sim/sum_prediction_test.cc — predictions of the operators that sum over ranks count the formula's bytes.
#include <gtest/gtest.h>

#include <tuple>

#include "ops/dense/gemm_sim.h"
#include "ops/prediction.h"
#include "tests/support/sum_layouts.h"
#include "tests/support/sum_traffic.h"

namespace mk::test {
namespace {

class SumPrediction : public testing::TestWithParam<std::tuple<SumOp, WorldShape>> {};

INSTANTIATE_TEST_SUITE_P(Worlds, SumPrediction,
                         testing::Combine(testing::ValuesIn(kSumOps), testing::ValuesIn(kWorlds)), joined_names);

TEST_P(SumPrediction, MovesTheBytesOfTheFormulaAndIsNoFasterThanItsBound) {
  const auto& [op, world, shape] = std::tuple_cat(GetParam(), std::tuple{Shape{300, 520, 64}});
  const Traffic expected = traffic_of(op, world, shape, DType::kBf16);
  with_layout(op, world, {shape, gemm_rs_op::kSm90Tile, kSumSplits[1]},
              [expected, world = world, shape = shape](const auto& layout) {
                sim::SimWorld run(dense::sim_spec(layout, nullptr));
                dense::simulate_world(run, layout, 1, nullptr);
                ASSERT_FALSE(run.core().stopped()) << run.core().complaints().front().text;
                const double rows = static_cast<double>(shape.shard_rows * world.size());
                const Prediction p = predict(run, 2.0 * rows * static_cast<double>(shape.n * shape.k));
                EXPECT_EQ(p.nvlink_bytes, expected.nvlink_bytes);
                EXPECT_EQ(p.network_bytes, expected.network_bytes);
                EXPECT_GE(p.time_us, p.bound_us());
              });
}

}  // namespace
}  // namespace mk::test

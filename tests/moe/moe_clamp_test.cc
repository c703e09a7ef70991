// SPDX-License-Identifier: MIT
// tests/moe/moe_clamp_test.cc — a layer of experts whose gate and up are bounded, forwards and backwards.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/moe_backward_launch.h"
#include "tests/support/moe_layer_launch.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ActivationClamp, BoundsGateFromAboveAndUpOnBothSides) {
  constexpr ActivationClamp clamp{2};
  EXPECT_EQ(clamp.gate(3), 2);
  EXPECT_EQ(clamp.gate(2), 2);
  EXPECT_EQ(clamp.gate(-3), -3);
  EXPECT_EQ(clamp.up(3), 2);
  EXPECT_EQ(clamp.up(1), 1);
  EXPECT_EQ(clamp.up(-3), -2);
  EXPECT_TRUE(clamp.cuts_gate(2.5f) && clamp.cuts_up(2.5f) && clamp.cuts_up(-2.5f));
  EXPECT_FALSE(clamp.cuts_gate(2) || clamp.cuts_gate(-9) || clamp.cuts_up(2) || clamp.cuts_up(-2));
}

TEST(ActivationClamp, LeavesANaN) {
  for (const float most : {2.0f, kInfinity}) {
    EXPECT_TRUE(std::isnan(ActivationClamp{most}.gate(NAN)));
    EXPECT_TRUE(std::isnan(ActivationClamp{most}.up(NAN)));
  }
  EXPECT_EQ(ActivationClamp{}.gate(kInfinity), kInfinity);
  EXPECT_EQ(ActivationClamp{}.up(-kInfinity), -kInfinity);
}

class MoeClamp : public testing::TestWithParam<WorldShape> {
 protected:
  moe::LayerProblem problem(float clamp) const {
    moe::LayerProblem made = layer_problem(shape, 2, 2, 20, 0, 7, 9);
    made.shape.activation_clamp = clamp;
    return made;
  }
  std::vector<std::vector<float>> out_of(float clamp) {
    MoeLayerLaunch launch(world, MoeLayerData(problem(clamp), Routing::kUniform, 3));
    launch.enqueue(world);
    world.synchronize();
    EXPECT_TRUE(launch.is_right()) << clamp;
    return launch.out();
  }

  WorldShape shape = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
};
INSTANTIATE_TEST_SUITE_P(Worlds, MoeClamp, testing::Values(WorldShape{1, 1}, WorldShape{1, 4}, WorldShape{2, 2}),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(MoeClamp, BoundsWhatTheLayerComputes) {
  const auto none = out_of(0);
  EXPECT_EQ(out_of(kInfinity), none);
  EXPECT_EQ(out_of(1e30f), none);
  EXPECT_NE(out_of(1.5f), none);
  EXPECT_NE(out_of(0.25f), out_of(1.5f));
}

TEST_P(MoeClamp, ZeroesGradientsBeyondTheBounds) {
  for (const float clamp : {0.0f, 0.25f, 1.0f, kInfinity}) {
    MoeBackwardLaunch launch(world, MoeBackwardData(problem(clamp), Routing::kUniform, 3));
    launch.enqueue(world);
    world.synchronize();
    EXPECT_TRUE(launch.is_right()) << clamp;
  }
}

// `kept` has what the first GEMM gave, whatever the bound.
TEST_P(MoeClamp, KeepsGateAndUpAsTheyWere) {
  std::vector<std::vector<float>> kept[2];
  for (const int is_clamped : {0, 1}) {
    const moe::LayerProblem asked = problem(is_clamped != 0 ? 0.5f : 0.0f);
    MoeLayerLaunch launch(world, MoeLayerData(asked, Routing::kUniform, 3));
    const MoeLayerShape& of = asked.shape;
    kept[is_clamped].assign(shape.size(), std::vector<float>(of.max_rows * 2 * of.inter));
    for (int rank = 0; rank < shape.size(); ++rank) {
      launch.args()[rank].kept = {kept[is_clamped][rank].data(), DType::kFp32, of.max_rows, 2 * of.inter};
    }
    launch.enqueue(world);
    world.synchronize();
  }
  EXPECT_EQ(kept[0], kept[1]);
}

TEST(MoeClampBadInput, IsRefusedByName) {
  World world = World::local(1, 2, DeviceKind::kCpu);
  const moe::LayerProblem problem = layer_problem({1, 2}, 2, 2, 20);
  for (const float bad : {-1.0f, -kInfinity, NAN}) {
    MoeLayerShape shape = problem.shape;
    shape.activation_clamp = bad;
    MoeLayerLaunch forward(world, MoeLayerData(problem, Routing::kUniform, 3));
    MoeBackwardLaunch backward(world, MoeBackwardData(problem, Routing::kUniform, 3));
    EXPECT_TRUE(refuses({"activation_clamp is", "0: none"}, [&] { moe_layer(world, shape, forward.args()); }));
    EXPECT_TRUE(
        refuses({"activation_clamp is", "0: none"}, [&] { moe_layer_backward(world, shape, backward.args()); }));
  }
}

}  // namespace
}  // namespace mk::test

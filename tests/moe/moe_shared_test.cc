// SPDX-License-Identifier: MIT
// tests/moe/moe_shared_test.cc — a layer of experts with shared ones, forwards and backwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/moe_backward_launch.h"
#include "tests/support/moe_layer_launch.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

TEST(MoeShared, IdsSkipThem) {
  const moe::LayerProblem problem = with_shared(layer_problem({1, 2}, 3, 2, 4), 2);
  const moe::Layout layout = moe::make_layout(problem.dispatch(), {}, {{1}, {0}, {1}});
  EXPECT_EQ(layout.experts, 10);
  EXPECT_EQ(layout.topk, 4);
  EXPECT_EQ(layout.num_ids(), 6);
  const std::vector<int> experts = {0, 1, 2, 5, 6, 7};
  for (int id = 0; id < 6; ++id) EXPECT_EQ(layout.expert_of_id(id), experts[id]);
  EXPECT_EQ(layout.expert_of_id(-1), -1);
  EXPECT_EQ(layout.expert_of_id(6), -1);
  EXPECT_EQ(layout.shared_expert(0, 2), 3);
  EXPECT_EQ(layout.shared_expert(0, 3), 4);
  EXPECT_EQ(layout.shared_expert(1, 3), 9);
}

class MoeSharedOp : public testing::TestWithParam<WorldShape> {
 protected:
  WorldShape shape = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
};
INSTANTIATE_TEST_SUITE_P(Worlds, MoeSharedOp,
                         testing::Values(WorldShape{1, 1}, WorldShape{1, 3}, WorldShape{2, 2}, WorldShape{3, 2}),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(MoeSharedOp, IsRightWhateverTheRouting) {
  for (const int shared : {1, 3}) {
    const moe::LayerProblem problem = with_shared(layer_problem(shape, 2, 2, 20, 0, 7, 9), shared);
    for (const Routing routing : kRoutings) {
      MoeLayerLaunch forward(world, MoeLayerData(problem, routing, 3));
      MoeBackwardLaunch backward(world, MoeBackwardData(problem, routing, 4));
      forward.enqueue(world);
      backward.enqueue(world);
      world.synchronize();
      EXPECT_TRUE(forward.is_right()) << shared << ", " << name_of(routing);
      EXPECT_TRUE(backward.is_right()) << shared << ", " << name_of(routing);
    }
  }
}

TEST_P(MoeSharedOp, MovesWhatItMovesWithoutThem) {
  const moe::LayerProblem without = layer_problem(shape, 2, 2, 20);
  uint64_t nvlink[2];
  for (const int shared : {0, 1}) {
    const moe::LayerProblem problem = with_shared(without, shared);
    MoeLayerLaunch launch(world, MoeLayerData(problem, Routing::kNone, 3));
    const Split chosen;
    const runtime::Plan& plan = moe::plan_for(world.state(), problem, chosen);
    launch.enqueue(world);
    world.synchronize();
    EXPECT_TRUE(launch.is_right());
    const auto& layout = plan.layout<moe::LayerLayout>();
    nvlink[shared] = plan.nvlink_bytes(0) - shape.nodes * (shape.ranks - 1) * layout.counts_bytes();
  }
  EXPECT_EQ(nvlink[0], 0u);
  EXPECT_EQ(nvlink[1], 0u);
}

// Which rank does not fit, and why, is in the callers' words.
TEST_P(MoeSharedOp, RowsThatDoNotFitAreRefusedByName) {
  const int64_t tokens = 10;
  moe::LayerProblem problem = with_shared(layer_problem(shape, 2, 1, tokens), 1);
  problem.shape.max_rows = tokens - 1;
  MoeLayerData data(problem, Routing::kNone, 1);
  data.routing() = MoeLaunchData(problem.dispatch(), Routing::kNone, 1, tokens);
  MoeLayerLaunch launch(world, data);
  launch.enqueue(world);
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"would get 10 rows", "max_rows, which is 9", "its shared expert 0"},
                     [&] { world.synchronize(); }));
  EXPECT_TRUE(launch.is_untouched());
}

}  // namespace
}  // namespace mk::test

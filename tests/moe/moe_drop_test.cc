// SPDX-License-Identifier: MIT
// tests/moe/moe_drop_test.cc — mixtures of experts that drop pairs for which a rank has no room: the first slots stay.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/moe_backward_launch.h"
#include "tests/support/moe_launch.h"
#include "tests/support/moe_layer_launch.h"
#include "tests/support/weather.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

moe::Problem dropping(moe::Problem problem, int64_t max_rows) {
  problem.shape.max_rows = max_rows;
  problem.shape.overflow = MoeOverflow::kDrop;
  return problem;
}
moe::LayerProblem dropping(moe::LayerProblem problem, int64_t max_rows) {
  problem.shape.max_rows = max_rows;
  problem.shape.overflow = MoeOverflow::kDrop;
  return problem;
}

bool drops_any(const MoeLaunchData& data) {
  for (int rank = 0; rank < data.problem().world.size(); ++rank) {
    for (int slot = 0; slot < data.named_slots(); ++slot) {
      if (data.dropped(rank, slot) > 0) return true;
    }
  }
  return false;
}

// What the reference says, in a case that can be seen at a glance: two ranks with an expert each, room for three rows.
TEST(MoeDropRule, RoomGoesToSlotsThenRanksThenTokens) {
  const moe::Problem problem = dropping(moe_problem({1, 2}, 1, 2, 2), 3);
  MoeLaunchData data(problem, Routing::kNone, 1, 2);
  data.rank(0).ids = {0, 1, 1, 0};  // token 0 wants expert 0, then 1; token 1 the other way round
  data.rank(1).ids = {0, 1, 0, 1};
  data.drop();
  EXPECT_EQ(data.routed_ids(0), (std::vector<int64_t>{0, 1, 1, -1}));  // expert 0 has three of the first slot
  EXPECT_EQ(data.routed_ids(1), (std::vector<int64_t>{0, 1, 0, -1}));  // expert 1: one of the first, two of the second
  EXPECT_EQ(data.dropped(0, 1), 1);
  EXPECT_EQ(data.dropped(1, 1), 1);
}

class MoeDrop : public testing::TestWithParam<WorldShape> {
 protected:
  WorldShape shape = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
};
INSTANTIATE_TEST_SUITE_P(Worlds, MoeDrop,
                         testing::Values(WorldShape{1, 1}, WorldShape{1, 3}, WorldShape{2, 1}, WorldShape{2, 2},
                                         WorldShape{3, 2}),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(MoeDrop, KeepsWhatFitsWhateverTheRouting) {
  int dropped = 0;
  for (const int topk : {1, 3, 20}) {
    const int local_experts = 2;
    const int slots = std::min(topk, local_experts * shape.size());
    for (const int64_t max_rows : {1, 7, 40}) {
      const moe::Problem problem = dropping(moe_problem(shape, local_experts, slots, 19), max_rows);
      std::vector<std::unique_ptr<MoeLaunch>> queued;
      for (int i = 0; i < static_cast<int>(std::size(kRoutings)); ++i) {
        const auto ids = i % 2 == 0 ? MoeIds::Type::kInt64 : MoeIds::Type::kInt32;
        queued.push_back(std::make_unique<MoeLaunch>(world, MoeLaunchData(problem, kRoutings[i], 10 + i), ids));
        dropped += drops_any(queued.back()->data()) ? 1 : 0;
      }
      for (auto& launch : queued) launch->enqueue(world);
      world.synchronize();  // nothing is refused
      for (const auto& launch : queued) EXPECT_TRUE(launch->is_right()) << topk << " slots, " << max_rows << " rows";
    }
  }
  EXPECT_GT(dropped, 10);
}

TEST_P(MoeDrop, OfALayerIsTheSameInBothPasses) {
  for (const int64_t max_rows : {3, 25}) {
    const moe::LayerProblem problem = dropping(layer_problem(shape, 2, std::min(3, 2 * shape.size()), 15), max_rows);
    for (const Routing routing : kRoutings) {
      MoeLayerLaunch forward(world, MoeLayerData(problem, routing, 3));
      MoeBackwardLaunch backward(world, MoeBackwardData(problem, routing, 4));
      forward.enqueue(world);
      backward.enqueue(world);
      world.synchronize();
      EXPECT_TRUE(forward.is_right()) << name_of(routing);
      EXPECT_TRUE(backward.is_right()) << name_of(routing);
    }
  }
}

// Room for them is set aside before slots are counted.
TEST_P(MoeDrop, SharedExpertsLoseNothing) {
  moe::LayerProblem problem = dropping(layer_problem(shape, 2, 2, 15), 0);
  problem.shape.shared = 1;
  problem.shape.max_rows = 15 + 4;
  for (const Routing routing : {Routing::kUniform, Routing::kOneExpert}) {
    MoeLayerLaunch forward(world, MoeLayerData(problem, routing, 5));
    forward.enqueue(world);
    world.synchronize();
    EXPECT_TRUE(forward.is_right()) << name_of(routing);
  }
  problem.shape.max_rows = 14;
  MoeLayerLaunch refused(world, MoeLayerData(problem, Routing::kNone, 5));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"max_rows is 14", "at least 15", "never dropped"},
                     [&] { refused.enqueue(world); }));
}

TEST_P(MoeDrop, MovesOnlyWhatIsLeft) {
  const moe::Problem problem = dropping(moe_problem(shape, 2, 2, 40), 30);
  MoeLaunch launch(world, MoeLaunchData(problem, Routing::kUniform, 3, 40));
  ASSERT_TRUE(drops_any(launch.data()));
  expect_it_moves_only_what_is_routed(world, launch);
}

TEST_P(MoeDrop, AnySplitDropsTheSame) {
  const moe::Problem problem = dropping(moe_problem(shape, 2, 2, 33), 20);
  for (const int dispatch : {1, 3}) {
    Split split{{"dispatch", dispatch}, {"compute", 1}};
    if (shape.nodes > 1) split["send"] = 1;
    MoeLaunch launch(world, MoeLaunchData(problem, Routing::kZipf, 11, 33));
    launch.enqueue(world, {split});
    world.synchronize();
    EXPECT_TRUE(launch.is_right()) << dispatch;
  }
}

TEST_P(MoeDrop, AnIdThatNamesNoExpertTakesNoRoom) {
  const moe::Problem problem = dropping(moe_problem(shape, 2, 2, 12), 5);
  MoeLaunchData data(problem, Routing::kUniform, 9, 12);
  data.rank(0).ids[0] = problem.shape.experts;
  data.drop();
  MoeLaunch launch(world, data);
  launch.enqueue(world);
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"rank 0 refused", "topk_idx of token 0, slot 0"},
                     [&] { world.synchronize(); }));
  EXPECT_TRUE(launch.is_right());
}

TEST(MoeDropArgs, NothingIsToldWhereNothingIsDropped) {
  World world = World::local(1, 2, DeviceKind::kCpu);
  MoeLaunch launch(world, MoeLaunchData(moe_problem({1, 2}, 2, 2, 12), Routing::kUniform, 9));
  int32_t word = 0;
  launch.args()[1].dropped = &word;
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument, {"dropped of rank 1 is set", "kDrop"}, [&] { launch.enqueue(world); }));
  launch.args()[1].routed_idx = &word;
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"routed_idx of rank 1 is set"}, [&] { launch.enqueue(world); }));
  moe::Problem odd = moe_problem({1, 2}, 2, 2, 12);
  odd.shape.overflow = static_cast<MoeOverflow>(3);
  MoeLaunch unknown(world, MoeLaunchData(odd, Routing::kUniform, 9));
  for (MoeDispatchGemmArgs& args : unknown.args()) args.routed_idx = args.dropped = nullptr;
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"overflow is 3"}, [&] { unknown.enqueue(world); }));
}

// Launches that drop and launches that refuse are other plans, and may come between each other.
TEST(MoeDropBesideOthers, PlansDoNotMeet) {
  const WorldShape shape{2, 2};
  World world = World::local(2, 2, DeviceKind::kCpu);
  const moe::Problem refusing = moe_problem(shape, 2, 2, 20);
  const moe::Problem few = dropping(refusing, refusing.shape.max_rows);
  std::vector<std::unique_ptr<MoeLaunch>> queued;
  for (int i = 0; i < 6; ++i) {
    queued.push_back(
        std::make_unique<MoeLaunch>(world, MoeLaunchData(i % 2 == 0 ? few : refusing, Routing::kUniform, i)));
    queued.back()->enqueue(world);
  }
  world.synchronize();
  for (const auto& launch : queued) EXPECT_TRUE(launch->is_right());
}

class MoeDropChaos : public testing::TestWithParam<Weather> {};
INSTANTIATE_TEST_SUITE_P(Weathers, MoeDropChaos, testing::ValuesIn(kWeathers),
                         [](const auto& info) { return info.param.name; });

TEST_P(MoeDropChaos, EveryQueuedLaunchIsRight) {
  const WorldShape shape{2, 2};
  const moe::Problem problem = dropping(moe_problem(shape, 2, 2, 40), 30);
  const auto world = chaotic_world(shape, 3, GetParam().chaos, {.ring_capacity = GetParam().ring_capacity});
  std::vector<std::unique_ptr<MoeLaunch>> queued;
  for (int i = 0; i < 6; ++i) {
    queued.push_back(
        std::make_unique<MoeLaunch>(world->members(), MoeLaunchData(problem, kRoutings[i % std::size(kRoutings)], i)));
  }
  for (auto& launch : queued) launch->enqueue(*world);
  world->synchronize();
  for (const auto& launch : queued) EXPECT_TRUE(launch->is_right());
}

TEST(MoeDropMissingRank, IsNamedInTime) {
  const WorldShape shape{2, 2};
  World world = World::local(2, 2, DeviceKind::kCpu, {.timeout_ms = 1500});
  MoeLaunch launch(world, MoeLaunchData(dropping(moe_problem(shape, 2, 2, 10), 9), Routing::kUniform, 1));
  launch.enqueue(world.state(), 3);
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {" for claimed[rank 3]", "launch 1"}, [&] { world.synchronize(); }));
}

}  // namespace
}  // namespace mk::test

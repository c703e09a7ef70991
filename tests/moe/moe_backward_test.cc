// SPDX-License-Identifier: MIT
// tests/moe/moe_backward_test.cc — moe_layer_backward on CPU threads: every element of every gradient is right,
// whatever the routing and the network.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <tuple>
#include <vector>

#include "base/half.h"
#include "tests/support/draws.h"
#include "tests/support/expect_error.h"
#include "tests/support/moe_backward_launch.h"
#include "tests/support/moe_layer_launch.h"
#include "tests/support/op_launch.h"
#include "tests/support/weather.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

using Queued = std::vector<std::unique_ptr<MoeBackwardLaunch>>;

Queued make_launches(const runtime::Members& members, const moe::LayerProblem& problem, int launches, uint64_t seed) {
  Queued queued;
  for (int launch = 0; launch < launches; ++launch) {
    const Routing routing = kRoutings[(seed + launch) % std::size(kRoutings)];
    MoeBackwardData data(problem, routing, seed_of(seed, launch));
    queued.push_back(std::make_unique<MoeBackwardLaunch>(members, std::move(data)));
  }
  return queued;
}

testing::AssertionResult all_right(const Queued& queued) {
  for (const auto& launch : queued) {
    if (const auto right = launch->is_right(); !right) return right;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult runs_right(World& world, const moe::LayerProblem& problem, int launches, uint64_t seed) {
  const Queued queued = make_launches(world.state().members(), problem, launches, seed);
  for (const auto& launch : queued) launch->enqueue(world);
  world.synchronize();
  return all_right(queued);
}

class MoeBackwardOp : public testing::TestWithParam<WorldShape> {
 protected:
  WorldShape shape = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
};
INSTANTIATE_TEST_SUITE_P(Worlds, MoeBackwardOp,
                         testing::Values(WorldShape{1, 1}, WorldShape{1, 3}, WorldShape{1, 4}, WorldShape{2, 2},
                                         WorldShape{3, 2}, WorldShape{2, 8}),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(MoeBackwardOp, IsRightLaunchAfterLaunchWhateverTheRouting) {
  for (const int local_experts : {1, 4}) {
    for (const int topk : {1, 2, 8, 20}) {
      const int experts = local_experts * shape.size();
      const moe::LayerProblem problem = layer_problem(shape, local_experts, std::min(topk, experts), 13);
      EXPECT_TRUE(runs_right(world, problem, 6, seed_of(topk, local_experts)));
    }
  }
}

TEST_P(MoeBackwardOp, ManyTilesAreRight) {
  EXPECT_TRUE(runs_right(world, layer_problem(shape, 2, 2, 20, 0, 70, 80), 3, 4));
}

TEST_P(MoeBackwardOp, MovesOnlyWhatIsRouted) {
  const moe::LayerProblem problem = layer_problem(shape, 2, 2, 40);
  MoeBackwardLaunch launch(world, MoeBackwardData(problem, Routing::kUniform, 3));
  const runtime::Plan& plan = moe::backward_plan_for(world.state(), problem, Split{});
  const auto& layout = plan.layout<moe::BackwardLayout>();
  launch.enqueue(world);
  world.synchronize();
  ASSERT_TRUE(launch.is_right());
  const MoeLaunchData& routing = launch.data().layer().routing();
  for (int rank = 0; rank < shape.size(); ++rank) {
    EXPECT_EQ(plan.nvlink_bytes(rank), nvlink_bytes(routing, layout, rank)) << rank;
    EXPECT_EQ(world.network_stats(rank).bytes, network_bytes(routing, layout, rank)) << rank;
  }
}

TEST_P(MoeBackwardOp, AnySplitGivesTheSameBits) {
  const moe::LayerProblem problem = layer_problem(shape, 2, 2, 33);
  std::vector<MoeGradients> first;
  for (const auto& [dispatch, compute] : {std::pair{1, 1}, std::pair{3, 1}, std::pair{1, 2}}) {
    Split split{{"dispatch", dispatch}, {"compute", compute}};
    if (shape.nodes > 1) split["send"] = 1;
    MoeBackwardLaunch launch(world, MoeBackwardData(problem, Routing::kUniform, 5));
    launch.enqueue(world, {split});
    world.synchronize();
    EXPECT_TRUE(launch.is_right());
    if (first.empty()) first = launch.seen();
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(launch.seen()[i].dx, first[i].dx);
      EXPECT_EQ(launch.seen()[i].scores, first[i].scores);
      EXPECT_EQ(launch.seen()[i].dw13, first[i].dw13);
      EXPECT_EQ(launch.seen()[i].dw2, first[i].dw2);
    }
  }
}

// `kept` of the one is what the other needs.  A central difference of Σ out · dout shows that they belong together.
TEST_P(MoeBackwardOp, IsTheGradientOfTheForwardPass) {
  const moe::LayerProblem problem = layer_problem(shape, 2, 2, 6);
  const MoeLayerData layer(problem, Routing::kUniform, 9);
  MoeBackwardData data(layer, 9);
  std::vector<std::vector<float>> kept(shape.size());
  const auto forward = [&](const MoeLayerData& of, bool keeps) {
    MoeLayerLaunch launch(world, of);
    for (int rank = 0; rank < shape.size() && keeps; ++rank) {
      kept[rank].resize(problem.shape.max_rows * 2 * problem.shape.inter, MoeBackwardLaunch::kPoison);
      launch.args()[rank].kept = {kept[rank].data(), DType::kFp32, problem.shape.max_rows, 2 * problem.shape.inter};
    }
    launch.enqueue(world);
    world.synchronize();
    EXPECT_TRUE(launch.is_right());
    double loss = 0;
    for (int rank = 0; rank < shape.size(); ++rank) {
      for (size_t i = 0; i < launch.out()[rank].size(); ++i) loss += double{launch.out()[rank][i]} * data.dout(rank)[i];
    }
    return loss;
  };
  forward(layer, true);
  MoeBackwardLaunch launch(world, data);
  for (int rank = 0; rank < shape.size(); ++rank) {
    launch.args()[rank].kept.data = kept[rank].data();
    const int64_t rows = layer.routing().rows_on(rank);
    EXPECT_EQ(std::ranges::count(kept[rank], MoeBackwardLaunch::kPoison),
              (problem.shape.max_rows - rows) * 2 * problem.shape.inter);
  }
  launch.enqueue(world);
  world.synchronize();
  const int last = shape.size() - 1;
  const auto slope = [&](auto&& element) {
    constexpr float kStep = 0x1p-6f;
    MoeLayerData more = layer, less = layer;
    element(more) += kStep;
    element(less) -= kStep;
    return (forward(more, false) - forward(less, false)) / (2 * kStep);
  };
  const int64_t tokens = layer.routing().rank(last).tokens;
  const MoeGradients& seen = launch.seen()[last];
  for (int64_t token = 0; token < tokens; ++token) {
    const size_t at = token * problem.shape.hidden + 1;
    EXPECT_NEAR(slope([&](MoeLayerData& d) -> float& { return d.routing().rank(last).x[at]; }), seen.dx[at], 2e-2);
    const size_t pair = token * problem.shape.topk;
    EXPECT_NEAR(slope([&](MoeLayerData& d) -> float& { return d.routing().rank(last).weights[pair]; }),
                seen.scores[pair], 2e-2);
  }
}

TEST_P(MoeBackwardOp, RowsThatDoNotFitAreRefusedAndTheWorldGoesOn) {
  const moe::LayerProblem fits = layer_problem(shape, 1, 1, 10);
  moe::LayerProblem problem = fits;
  problem.shape.max_rows = 5;
  MoeBackwardLaunch before(world, MoeBackwardData(problem, Routing::kNone, 1));
  MoeBackwardLaunch too_many(world, MoeBackwardData(problem, Routing::kOneExpert, 3));
  MoeBackwardLaunch after(world, MoeBackwardData(problem, Routing::kNone, 2));
  int64_t rows = 0;
  for (int rank = 0; rank < shape.size(); ++rank) {
    rows = std::max(rows, too_many.data().layer().routing().rows_on(rank));
  }
  ASSERT_GT(rows, 5);
  for (MoeBackwardLaunch* launch : {&before, &too_many, &after}) launch->enqueue(world);
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"refused launch 2", "max_rows"}, [&] { world.synchronize(); }));
  EXPECT_TRUE(before.is_right());
  EXPECT_TRUE(too_many.is_untouched());
  EXPECT_TRUE(after.is_right());
  EXPECT_TRUE(runs_right(world, fits, 3, 5));
}

class MoeBackwardChaos : public testing::TestWithParam<std::tuple<WorldShape, Weather>> {};
INSTANTIATE_TEST_SUITE_P(Worlds, MoeBackwardChaos,
                         testing::Combine(testing::Values(WorldShape{2, 1}, WorldShape{2, 3}, WorldShape{3, 2}),
                                          testing::ValuesIn(kWeathers)),
                         joined_names);

TEST_P(MoeBackwardChaos, EveryQueuedLaunchIsRightForEverySeed) {
  const auto& [shape, weather] = GetParam();
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const auto world = chaotic_world(shape, seed, weather.chaos, {.ring_capacity = weather.ring_capacity});
    const Queued queued = make_launches(world->members(), layer_problem(shape, 2, 2, 20), 6, seed);
    for (const auto& launch : queued) launch->enqueue(*world);
    world->synchronize();
    ASSERT_TRUE(all_right(queued)) << "seed " << seed;
  }
}

TEST(MoeBackwardMissingRank, IsNamedInTime) {
  const WorldShape shape{2, 2};
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.timeout_ms = 1500});
  MoeBackwardLaunch launch(world, MoeBackwardData(layer_problem(shape, 2, 2, 10), Routing::kUniform, 1));
  launch.enqueue(world.state(), shape.size() - 1);
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"counted[rank 3]", "launch 1"}, [&] { world.synchronize(); }));
}

TEST(MoeBackwardProperty, ManyRoutingsAreRight) {
  for (const WorldShape& shape : {WorldShape{1, 1}, WorldShape{2, 2}, WorldShape{3, 1}}) {
    World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
    const auto seeds = static_cast<uint64_t>(draws(20));
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      tools::RoutingRandom random(seed);
      const int local_experts = 1 + static_cast<int>(tools::below(random, 5));
      const int topk = 1 + static_cast<int>(tools::below(random, std::min(9, local_experts * shape.size())));
      const moe::LayerProblem problem = layer_problem(shape, local_experts, topk, 1 + tools::below(random, 30), 0,
                                                      1 + tools::below(random, 20), 1 + tools::below(random, 20));
      const auto shared = static_cast<int>(tools::below(random, 3));
      ASSERT_TRUE(runs_right(world, with_shared(problem, shared), 4, seed)) << "seed " << seed;
    }
  }
}

TEST(MoeBackwardOptional, NoWeightsAreOnesAndTheirGradientsNeedNotBeAskedFor) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  MoeBackwardData data(layer_problem({2, 2}, 2, 2, 30), Routing::kUniform, 4);
  for (int rank = 0; rank < world.size(); ++rank) {
    std::vector<float>& weights = data.layer().routing().rank(rank).weights;
    std::fill(weights.begin(), weights.end(), 1.0f);
  }
  MoeBackwardLaunch with(world, data);
  MoeBackwardLaunch without(world, data);
  for (MoeLayerBackwardArgs& own : without.args()) {
    own.topk_weight = nullptr;
    own.dtopk_weight = nullptr;
  }
  with.enqueue(world);
  without.enqueue(world);
  world.synchronize();
  EXPECT_TRUE(with.is_right());
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_EQ(without.seen()[rank].dx, with.seen()[rank].dx);
    EXPECT_EQ(without.seen()[rank].dw13, with.seen()[rank].dw13);
    EXPECT_EQ(without.seen()[rank].dw2, with.seen()[rank].dw2);
    EXPECT_EQ(std::ranges::count(without.seen()[rank].scores, MoeBackwardLaunch::kPoison),
              std::ssize(without.seen()[rank].scores));
  }
}

// In 16 bits a row of odd length is no multiple of a score.
TEST(MoeBackwardTypes, ErrorsOfBf16AreThoseOfItsRounding) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  const moe::LayerProblem problem{{2, 2}, {13, 7, 8, 3, 20, 240}, DType::kBf16};
  MoeBackwardLaunch launch(world, MoeBackwardData(problem, Routing::kUniform, 3));
  std::deque<std::vector<Bf16>> bits;
  const auto narrow = [&](Tensor& tensor) {
    const auto* const values = static_cast<const float*>(tensor.data);
    std::vector<Bf16>& own = bits.emplace_back();
    for (int64_t i = 0; i < tensor.rows * tensor.cols; ++i) own.push_back(from_float<Bf16>(values[i]));
    tensor.data = own.data();
    tensor.dtype = DType::kBf16;
  };
  for (MoeLayerBackwardArgs& own : launch.args()) {
    for (Tensor* tensor : {&own.x, &own.w13, &own.w2, &own.kept, &own.dout, &own.dx, &own.dw13, &own.dw2}) {
      narrow(*tensor);
    }
  }
  launch.enqueue(world);
  world.synchronize();
  for (int rank = 0; rank < world.size(); ++rank) {
    const MoeLayerBackwardArgs& own = launch.args()[rank];
    const auto wide = [](const Tensor& tensor) {
      const auto* const values = static_cast<const Bf16*>(tensor.data);
      std::vector<float> made;
      for (int64_t i = 0; i < tensor.rows * tensor.cols; ++i) made.push_back(to_float(values[i]));
      return made;
    };
    const MoeGradients seen{wide(own.dx), launch.seen()[rank].scores, wide(own.dw13), wide(own.dw2)};
    EXPECT_TRUE(launch.data().is_right(rank, seen, 0x1p-6));
  }
}

TEST(MoeBackwardBadInput, IsRefusedByName) {
  World world = World::local(1, 2, DeviceKind::kCpu);
  const moe::LayerProblem problem = layer_problem({1, 2}, 2, 2, 40);
  const auto refuses = [&](std::initializer_list<std::string_view> words, auto&& change) {
    MoeBackwardLaunch launch(world, MoeBackwardData(problem, Routing::kUniform, 3));
    MoeLayerShape shape = problem.shape;
    change(shape, launch.args());
    const auto refused =
        throws(ErrorCode::kInvalidArgument, words, [&] { moe_layer_backward(world, shape, launch.args()); });
    return refused && launch.is_untouched() ? refused : testing::AssertionFailure() << refused.message();
  };
  using Shape = MoeLayerShape;
  using Args = std::vector<MoeLayerBackwardArgs>;
  EXPECT_TRUE(refuses({"inter is 0"}, [](Shape& shape, Args&) { shape.inter = 0; }));
  EXPECT_TRUE(refuses({"max_rows is 0"}, [](Shape& shape, Args&) { shape.max_rows = 0; }));
  EXPECT_TRUE(refuses({"x of rank 1 has 41 rows"}, [](Shape&, Args& args) { args[1].x.rows = 41; }));
  EXPECT_TRUE(refuses({"kept of rank 1"}, [](Shape&, Args& args) { args[1].kept.rows -= 1; }));
  EXPECT_TRUE(refuses({"kept of rank 0"}, [](Shape&, Args& args) { args[0].kept.data = nullptr; }));
  EXPECT_TRUE(refuses({"dw13 of rank 1"}, [](Shape&, Args& args) { args[1].dw13.cols += 1; }));
  EXPECT_TRUE(refuses({"dw2 of rank 0"}, [](Shape&, Args& args) { args[0].dw2.rows -= 1; }));
  EXPECT_TRUE(refuses({"dout of rank"}, [](Shape&, Args& args) {
    for (MoeLayerBackwardArgs& own : args) own.dout.data = nullptr;
  }));
  EXPECT_TRUE(refuses({"dx of rank"}, [](Shape&, Args& args) {
    for (MoeLayerBackwardArgs& own : args) own.dx.rows += 1;
  }));
  EXPECT_TRUE(refuses({"args has 1 entries"}, [](Shape&, Args& args) { args.pop_back(); }));
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/moe/moe_layer_test.cc — moe_layer on CPU threads: every element is right, whatever the routing and the network.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <tuple>
#include <vector>

#include "base/half.h"
#include "tests/support/draws.h"
#include "tests/support/expect_error.h"
#include "tests/support/moe_layer_launch.h"
#include "tests/support/op_launch.h"
#include "tests/support/weather.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

using Queued = std::vector<std::unique_ptr<MoeLayerLaunch>>;

// Launches of one shape; each has a routing and numbers of tokens of its own.
Queued make_launches(const runtime::Members& members, const moe::LayerProblem& problem, int launches, uint64_t seed) {
  Queued queued;
  for (int launch = 0; launch < launches; ++launch) {
    const Routing routing = kRoutings[(seed + launch) % std::size(kRoutings)];
    const auto ids = launch % 2 == 0 ? MoeIds::Type::kInt64 : MoeIds::Type::kInt32;
    MoeLayerData data(problem, routing, seed_of(seed, launch));
    queued.push_back(std::make_unique<MoeLayerLaunch>(members, std::move(data), ids));
  }
  return queued;
}

testing::AssertionResult all_right(const Queued& queued) {
  for (const auto& launch : queued) {
    if (const auto right = launch->is_right(); !right) return right;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult runs_right(World& world, const moe::LayerProblem& problem, int launches, uint64_t seed,
                                    const Split& split = {}) {
  const Queued queued = make_launches(world.state().members(), problem, launches, seed);
  for (const auto& launch : queued) launch->enqueue(world, {split});
  world.synchronize();
  return all_right(queued);
}

class MoeLayerOp : public testing::TestWithParam<WorldShape> {
 protected:
  WorldShape shape = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
};
INSTANTIATE_TEST_SUITE_P(Worlds, MoeLayerOp,
                         testing::Values(WorldShape{1, 1}, WorldShape{1, 3}, WorldShape{1, 4}, WorldShape{2, 1},
                                         WorldShape{2, 2}, WorldShape{3, 2}, WorldShape{2, 8}),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(MoeLayerOp, IsRightLaunchAfterLaunchWhateverTheRouting) {
  for (const int local_experts : {1, 4}) {
    for (const int topk : {1, 2, 8, 20}) {
      const int experts = local_experts * shape.size();
      const moe::LayerProblem problem = layer_problem(shape, local_experts, std::min(topk, experts), 21);
      EXPECT_TRUE(runs_right(world, problem, 6, seed_of(topk, local_experts)));
    }
  }
}

// More columns than a tile of either GEMM has, and experts with several blocks.
TEST_P(MoeLayerOp, ManyTilesAreRight) {
  EXPECT_TRUE(runs_right(world, layer_problem(shape, 2, 2, 70, 0, 130, 150), 3, 4));
}

TEST_P(MoeLayerOp, MovesOnlyWhatIsRouted) {
  const moe::LayerProblem problem = layer_problem(shape, 2, 2, 40);
  MoeLayerLaunch launch(world, MoeLayerData(problem, Routing::kUniform, 3));
  const Split chosen;
  const runtime::Plan& plan = moe::plan_for(world.state(), problem, chosen);
  const auto& layout = plan.layout<moe::LayerLayout>();
  launch.enqueue(world);
  world.synchronize();
  ASSERT_TRUE(launch.is_right());
  for (int rank = 0; rank < shape.size(); ++rank) {
    EXPECT_EQ(plan.nvlink_bytes(rank), nvlink_bytes(launch.data().routing(), layout, rank)) << rank;
    EXPECT_EQ(world.network_stats(rank).bytes, network_bytes(launch.data().routing(), layout, rank)) << rank;
  }
}

TEST_P(MoeLayerOp, AnySplitIsRightAndGivesTheSameBits) {
  const moe::LayerProblem problem = layer_problem(shape, 2, 2, 33);
  std::vector<std::vector<float>> first;
  for (const auto& [dispatch, compute] : {std::pair{1, 1}, std::pair{3, 1}, std::pair{1, 2}}) {
    Split split{{"dispatch", dispatch}, {"compute", compute}};
    if (shape.nodes > 1) split["send"] = 1;
    MoeLayerLaunch launch(world, MoeLayerData(problem, Routing::kUniform, 5));
    launch.enqueue(world, {split});
    world.synchronize();
    EXPECT_TRUE(launch.is_right());
    if (first.empty()) first = launch.out();
    EXPECT_EQ(launch.out(), first);
  }
}

TEST_P(MoeLayerOp, RowsThatDoNotFitAreRefusedByNameAndTheWorldGoesOn) {
  const int64_t tokens = 10;
  const moe::LayerProblem problem = layer_problem(shape, 1, 1, tokens, tokens * shape.size() - 1);
  const auto all_to_last = [&](int64_t fewer) {
    MoeLayerData data(problem, Routing::kNone, 1);
    for (int rank = 0; rank < shape.size(); ++rank) {
      MoeRank& own = data.routing().rank(rank);
      own.tokens = tokens - (rank == 0 ? fewer : 0);
      own.ids.assign(own.tokens, shape.size() - 1);
      own.weights.assign(own.tokens, 0.5f);
      own.x.assign(own.tokens * problem.shape.hidden, 2.0f);
    }
    return data;
  };
  MoeLayerLaunch before(world, all_to_last(1));
  MoeLayerLaunch too_many(world, all_to_last(0));
  MoeLayerLaunch after(world, all_to_last(2));
  for (MoeLayerLaunch* launch : {&before, &too_many, &after}) launch->enqueue(world);
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"refused launch 2", "max_rows"}, [&] { world.synchronize(); }));
  EXPECT_TRUE(before.is_right());
  EXPECT_TRUE(too_many.is_untouched());
  EXPECT_TRUE(after.is_right());
  EXPECT_TRUE(runs_right(world, problem, 3, 5));
}

template <class T>
double worst_error(World& world, DType dtype) {
  const moe::LayerProblem problem{{2, 2}, {16, 24, 8, 3, 20, 240}, dtype};
  const MoeLayerData data(problem, Routing::kUniform, 3);
  std::vector<std::vector<T>> kept;
  const auto rounded = [&](const std::vector<float>& values, int64_t rows, int64_t cols) {
    std::vector<T>& own = kept.emplace_back();
    for (const float value : values) own.push_back(from_float<T>(value));
    return Tensor{own.data(), dtype, rows, cols};
  };
  std::vector<MoeLayerArgs> args;
  std::vector<std::vector<T>> out(4);
  for (int rank = 0; rank < 4; ++rank) {
    const MoeRank& own = data.routing().rank(rank);
    out[rank].resize(own.tokens * 16);
    args.push_back({.x = rounded(own.x, own.tokens, 16),
                    .topk_idx = {own.ids.data()},
                    .topk_weight = own.weights.data(),
                    .w13 = rounded(data.w13(rank), 2 * 2 * 24, 16),
                    .w2 = rounded(data.w2(rank), 2 * 16, 24),
                    .out = {out[rank].data(), dtype, own.tokens, 16}});
  }
  moe_layer(world, problem.shape, args);
  world.synchronize();
  for (double tolerance = 1e-7; tolerance < 1; tolerance *= 2) {
    bool right = true;
    for (int rank = 0; rank < 4; ++rank) {
      std::vector<float> seen;
      for (const T value : out[rank]) seen.push_back(to_float(value));
      right = right && data.is_right(rank, seen, tolerance);
    }
    if (right) return tolerance;
  }
  return 1;
}

TEST(MoeLayerTypes, ErrorsAreThoseOfTheirRounding) {
  World world = World::local(2, 2, DeviceKind::kCpu);
  EXPECT_LT(worst_error<float>(world, DType::kFp32), 0x1p-20);
  EXPECT_LT(worst_error<Fp16>(world, DType::kFp16), 0x1p-9);
  EXPECT_LT(worst_error<Bf16>(world, DType::kBf16), 0x1p-6);
}

class MoeLayerChaos : public testing::TestWithParam<std::tuple<WorldShape, Weather>> {};
INSTANTIATE_TEST_SUITE_P(Worlds, MoeLayerChaos,
                         testing::Combine(testing::Values(WorldShape{2, 1}, WorldShape{2, 3}, WorldShape{3, 2}),
                                          testing::ValuesIn(kWeathers)),
                         joined_names);

TEST_P(MoeLayerChaos, EveryQueuedLaunchIsRightForEverySeed) {
  const auto& [shape, weather] = GetParam();
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const auto world = chaotic_world(shape, seed, weather.chaos, {.ring_capacity = weather.ring_capacity});
    const Queued queued = make_launches(world->members(), layer_problem(shape, 2, 2, 40), 6, seed);
    for (const auto& launch : queued) launch->enqueue(*world);
    world->synchronize();
    ASSERT_TRUE(all_right(queued)) << "seed " << seed;
  }
}

TEST(MoeLayerMissingRank, IsNamedInTime) {
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 1}, WorldShape{2, 3}}) {
    World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu, {.timeout_ms = 1500});
    MoeLayerLaunch launch(world, MoeLayerData(layer_problem(shape, 2, 2, 10), Routing::kUniform, 1));
    launch.enqueue(world.state(), shape.size() - 1);
    const std::string counted = "counted[rank " + std::to_string(shape.size() - 1) + "]";
    EXPECT_TRUE(throws(ErrorCode::kTimeout, {counted, "launch 1"}, [&] { world.synchronize(); }));
  }
}

TEST(MoeLayerProperty, HundredsOfRoutingsAreRight) {
  for (const WorldShape& shape : {WorldShape{1, 1}, WorldShape{2, 2}, WorldShape{3, 1}}) {
    World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
    const auto seeds = static_cast<uint64_t>(draws(25));
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      tools::RoutingRandom random(seed);
      const int local_experts = 1 + static_cast<int>(tools::below(random, 5));
      const int topk = 1 + static_cast<int>(tools::below(random, std::min(9, local_experts * shape.size())));
      const moe::LayerProblem problem = layer_problem(shape, local_experts, topk, 1 + tools::below(random, 60), 0,
                                                      1 + tools::below(random, 20), 1 + tools::below(random, 20));
      const auto shared = static_cast<int>(tools::below(random, 3));
      ASSERT_TRUE(runs_right(world, with_shared(problem, shared), 4, seed)) << "seed " << seed;
    }
  }
}

TEST(MoeLayerLimits, ManySlotsExpertsAndRanks) {
  World many = World::local(3, 8, DeviceKind::kCpu);
  EXPECT_TRUE(runs_right(many, layer_problem({3, 8}, 1, 20, 5), 2, 1));
  World two = World::local(2, 1, DeviceKind::kCpu);
  EXPECT_TRUE(runs_right(two, layer_problem({2, 1}, 512, 64, 20), 2, 2));
}

class MoeLayerBadInput : public testing::Test {
 protected:
  template <class Change>
  testing::AssertionResult refuses(std::initializer_list<std::string_view> words, Change&& change) {
    MoeLayerLaunch launch(world, MoeLayerData(problem, Routing::kUniform, 3));
    MoeLayerShape shape = problem.shape;
    change(shape, launch.args());
    const auto refused = throws(ErrorCode::kInvalidArgument, words, [&] { moe_layer(world, shape, launch.args()); });
    return refused && launch.is_untouched() ? refused : testing::AssertionFailure() << refused.message();
  }

  World world = World::local(1, 2, DeviceKind::kCpu);
  const moe::LayerProblem problem = layer_problem({1, 2}, 2, 2, 40);
};

TEST_F(MoeLayerBadInput, IsRefusedByName) {
  using Shape = MoeLayerShape;
  using Args = std::vector<MoeLayerArgs>;
  EXPECT_TRUE(refuses({"inter is 0"}, [](Shape& shape, Args&) { shape.inter = 0; }));
  EXPECT_TRUE(refuses({"hidden is 0"}, [](Shape& shape, Args&) { shape.hidden = 0; }));
  EXPECT_TRUE(refuses({"experts is 3", "world size 2"}, [](Shape& shape, Args&) { shape.experts = 3; }));
  EXPECT_TRUE(refuses({"topk is 5", "4 experts"}, [](Shape& shape, Args&) { shape.topk = 5; }));
  EXPECT_TRUE(refuses({"max_rows is 0"}, [](Shape& shape, Args&) { shape.max_rows = 0; }));
  EXPECT_TRUE(refuses({"x of rank 1 has 41 rows; max_tokens is 40"}, [](Shape&, Args& args) { args[1].x.rows = 41; }));
  EXPECT_TRUE(refuses({"w13 of rank 1"}, [](Shape&, Args& args) { args[1].w13.rows -= 1; }));
  EXPECT_TRUE(refuses({"w2 of rank 0"}, [](Shape&, Args& args) { args[0].w2.cols += 1; }));
  EXPECT_TRUE(refuses({"w2 of rank 1"}, [](Shape&, Args& args) { args[1].w2.data = nullptr; }));
  EXPECT_TRUE(refuses({"load of rank 1 is at", "multiple of 4"}, [](Shape&, Args& args) {
    args[1].load = reinterpret_cast<int32_t*>(static_cast<std::byte*>(args[1].out.data) + 1);
  }));
  EXPECT_TRUE(refuses({"shared is -1"}, [](Shape& shape, Args&) { shape.shared = -1; }));
  EXPECT_TRUE(refuses({"shared is 63", "topk, 2", "at most 64"}, [](Shape& shape, Args&) { shape.shared = 63; }));
  EXPECT_TRUE(refuses({"w13 of rank 0"}, [](Shape& shape, Args&) { shape.shared = 1; }));  // has none of it
  EXPECT_TRUE(refuses({"args has 1 entries"}, [](Shape&, Args& args) { args.pop_back(); }));
  EXPECT_TRUE(refuses({"stream of rank 1"}, [](Shape&, Args& args) { args[1].stream = &args; }));
  EXPECT_TRUE(refuses({"topk_idx of rank", "null"}, [](Shape&, Args& args) {
    for (MoeLayerArgs& own : args) own.topk_idx.data = nullptr;
  }));
}

}  // namespace
}  // namespace mk::test

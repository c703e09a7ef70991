// SPDX-License-Identifier: MIT
// tests/moe/moe_op_test.cc — moe_dispatch_gemm on CPU threads: every element is right, whatever the routing.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "base/half.h"
#include "tests/support/draws.h"
#include "tests/support/expect_error.h"
#include "tests/support/moe_launch.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

// Launches of one shape, queued back to back; each has a routing and numbers of tokens of its own.
testing::AssertionResult runs_right(World& world, const moe::Problem& problem, int launches, uint64_t seed,
                                    const Split& split = {}) {
  std::vector<std::unique_ptr<MoeLaunch>> queued;
  for (int launch = 0; launch < launches; ++launch) {
    const Routing routing = kRoutings[(seed + launch) % std::size(kRoutings)];
    const auto ids = launch % 2 == 0 ? MoeIds::Type::kInt64 : MoeIds::Type::kInt32;
    queued.push_back(std::make_unique<MoeLaunch>(world, MoeLaunchData(problem, routing, seed_of(seed, launch)), ids));
  }
  for (auto& launch : queued) launch->enqueue(world, {split});
  world.synchronize();
  for (const auto& launch : queued) {
    if (const auto right = launch->is_right(); !right) return right;
  }
  return testing::AssertionSuccess();
}

class MoeOp : public testing::TestWithParam<WorldShape> {
 protected:
  WorldShape shape = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
};
INSTANTIATE_TEST_SUITE_P(Worlds, MoeOp,
                         testing::Values(WorldShape{1, 1}, WorldShape{1, 3}, WorldShape{1, 4}, WorldShape{2, 1},
                                         WorldShape{2, 2}, WorldShape{3, 2}, WorldShape{2, 8}),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(MoeOp, IsRightLaunchAfterLaunchWhateverTheRouting) {
  for (const int local_experts : {1, 4}) {
    for (const int topk : {1, 2, 8, 20}) {
      const int experts = local_experts * shape.size();
      const moe::Problem problem = moe_problem(shape, local_experts, std::min(topk, experts), 21);
      EXPECT_TRUE(runs_right(world, problem, 6, seed_of(topk, local_experts)));
    }
  }
}

TEST_P(MoeOp, MovesOnlyWhatIsRouted) {
  MoeLaunch launch(world, MoeLaunchData(moe_problem(shape, 2, 2, 40), Routing::kUniform, 3));
  expect_it_moves_only_what_is_routed(world, launch);
}

TEST_P(MoeOp, AnySplitGivesTheSame) {
  const moe::Problem problem = moe_problem(shape, 2, 2, 33);
  const int send = shape.nodes > 1 ? 1 : 0;
  for (const auto& [dispatch, compute] : {std::pair{1, 1}, std::pair{3, 1}, std::pair{1, 2}}) {
    Split split{{"dispatch", dispatch}, {"compute", compute}};
    if (send > 0) split["send"] = send;
    EXPECT_TRUE(runs_right(world, problem, 3, 11, split));
  }
}

// A token, one too many rows, and launches around it that fit.
TEST_P(MoeOp, RowsThatDoNotFitAreRefusedByNameAndTheWorldGoesOn) {
  const int64_t tokens = 10;
  const int experts = shape.size();
  const moe::Problem fitting = moe_problem(shape, 1, 1, tokens, tokens * shape.size() - 1);
  const int full = experts - 1;
  const auto all_to = [&](int expert, int64_t fewer) {
    MoeLaunchData data(fitting, Routing::kNone, 1);
    for (int rank = 0; rank < shape.size(); ++rank) {
      MoeRank& own = data.rank(rank);
      own.tokens = tokens - (rank == shape.size() - 1 ? fewer : 0);
      own.ids.assign(own.tokens, expert);
      own.weights.assign(own.tokens, 1.0f);
      own.x.assign(own.tokens * fitting.shape.hidden, 2.0f);
    }
    return data;
  };
  MoeLaunch before(world, all_to(full, 1));
  MoeLaunch too_many(world, all_to(full, 0));
  MoeLaunch after(world, all_to(0, 1));
  before.enqueue(world);
  too_many.enqueue(world);
  after.enqueue(world);
  const std::string rows = std::to_string(tokens * shape.size());
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"refused launch 2", "rank " + std::to_string(full) + " would get " + rows, "max_rows",
                      "expert " + std::to_string(full)},
                     [&] { world.synchronize(); }));
  EXPECT_FALSE(world.failed());
  EXPECT_TRUE(before.is_right());
  EXPECT_TRUE(too_many.is_untouched());
  EXPECT_TRUE(after.is_right());
  world.synchronize();  // it is told once
  EXPECT_TRUE(runs_right(world, fitting, 3, 5));
}

TEST_P(MoeOp, AnIdThatNamesNoExpertIsRefusedByNameAndCountsAsNone) {
  const moe::Problem problem = moe_problem(shape, 2, 2, 12);
  for (const int64_t bad : {int64_t{problem.shape.experts}, int64_t{-2}, int64_t{1} << 40}) {
    MoeLaunchData data(problem, Routing::kUniform, 9);
    int victim = -1;
    for (int rank = 0; rank < shape.size(); ++rank) {
      if (data.rank(rank).tokens > 0) victim = rank;
    }
    ASSERT_GE(victim, 0);
    data.rank(victim).ids.back() = bad;
    const std::string token = std::to_string(data.rank(victim).tokens - 1);
    MoeLaunch launch(world, std::move(data));
    launch.enqueue(world);
    EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                       {"rank " + std::to_string(victim) + " refused",
                        "topk_idx of token " + token + ", slot 1 is " + std::to_string(bad)},
                       [&] { world.synchronize(); }));
    EXPECT_TRUE(launch.is_right());
  }
}

TEST_P(MoeOp, OutputsThatNobodyWantsAndWeightsThatNobodyHasAreFine) {
  const moe::Problem problem = moe_problem(shape, 2, 2, 12);
  MoeLaunchData data(problem, Routing::kUniform, 9);
  for (int rank = 0; rank < shape.size(); ++rank) std::ranges::fill(data.rank(rank).weights, 1.0f);
  MoeLaunch launch(world, data);
  for (MoeDispatchGemmArgs& args : launch.args()) args.topk_weight = nullptr;
  launch.enqueue(world);
  world.synchronize();
  EXPECT_TRUE(launch.is_right());
  MoeLaunch bare(world, data);
  for (MoeDispatchGemmArgs& args : bare.args()) args.origins = args.expert_rows = args.expert_ends = nullptr;
  bare.enqueue(world);
  world.synchronize();
}

// Rank 0 may bring nothing at all.
TEST(MoeForm, AnEmptyTensorHasNoType) {
  World world = World::local(1, 2, DeviceKind::kCpu);
  const moe::Problem problem = moe_problem({1, 2}, 2, 2, 6);
  MoeLaunchData data(problem, Routing::kUniform, 1, 6);
  MoeRank& empty = data.rank(0);
  empty.tokens = 0;
  empty.ids.clear();
  empty.weights.clear();
  empty.x.clear();
  MoeLaunch launch(world, data);
  launch.args()[0].x = {};
  launch.args()[0].topk_idx = {};
  launch.args()[0].topk_weight = nullptr;
  launch.args()[1].topk_weight = data.rank(1).weights.data();
  launch.enqueue(world);
  world.synchronize();
  EXPECT_TRUE(launch.is_right());
}

// A thousand routings, each with shapes of its own.
TEST(MoeProperty, AThousandRoutingsAreRight) {
  std::mt19937_64 random(2026);
  const auto draw = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
  constexpr WorldShape kDrawn[] = {{1, 1}, {1, 4}, {2, 2}, {3, 2}, {2, 3}};
  for (const WorldShape& shape : kDrawn) {
    World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
    for (int plan = 0; plan < draws(20); ++plan) {
      const int local_experts = static_cast<int>(draw(5));
      const int topk = static_cast<int>(draw(std::min(9, local_experts * shape.size())));
      const moe::Problem problem = moe_problem(shape, local_experts, topk, draw(40), 0, draw(9), draw(70));
      ASSERT_TRUE(runs_right(world, problem, 10, random())) << name_of(shape) << ", plan " << plan;
    }
  }
}

TEST(MoeForm, SixteenBitsAndWeightsAsTheyAreInALinearLayer) {
  World world = World::local(1, 2, DeviceKind::kCpu);
  const moe::Problem problem = moe_problem({1, 2}, 2, 1, 3, 6, 4, 3);
  const MoeShape& shape = problem.shape;
  const MoeLaunchData data(problem, Routing::kUniform, 4);
  std::vector<std::vector<Bf16>> x(2), w(2), y(2);
  std::vector<MoeDispatchGemmArgs> args;
  for (int rank = 0; rank < 2; ++rank) {
    const MoeRank& own = data.rank(rank);
    for (const float value : own.x) x[rank].push_back(from_float<Bf16>(value));
    for (int expert = 0; expert < 2; ++expert) {
      for (int64_t n = 0; n < shape.n; ++n) {
        for (int64_t k = 0; k < shape.hidden; ++k) {
          w[rank].push_back(from_float<Bf16>(own.w[(expert * shape.hidden + k) * shape.n + n]));
        }
      }
    }
    y[rank].resize(shape.max_rows * shape.n);
    args.push_back({.x = {x[rank].data(), DType::kBf16, own.tokens, shape.hidden},
                    .topk_idx = {own.ids.data()},
                    .w = {w[rank].data(), DType::kBf16, 2 * shape.n, shape.hidden},
                    .y = {y[rank].data(), DType::kBf16, shape.max_rows, shape.n},
                    .w_order = BOrder::kNK});
  }
  moe_dispatch_gemm(world, shape, args);
  world.synchronize();
  for (int rank = 0; rank < 2; ++rank) {
    size_t row = 0;
    for (int expert = 2 * rank; expert < 2 * rank + 2; ++expert) {
      for (const MoeRow& from : data.rows_of(expert)) {
        const std::vector<float> exact = data.exact(expert, from);
        for (int64_t n = 0; n < shape.n; ++n) EXPECT_EQ(to_float(y[rank][row * shape.n + n]), exact[n]);
        ++row;
      }
    }
  }
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/cuda/gpu_moe_layer_test.cc — moe_layer on a GPU: every element is right, whatever the routing.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "base/half.h"
#include "mkernel/moe_layer.h"
#include "tests/cuda/captured.h"
#include "tests/cuda/gpu_launch.h"
#include "tests/support/each_rank.h"
#include "tests/support/expect_error.h"
#include "tests/support/halves.h"
#include "tests/support/moe_layer_data.h"

namespace mk::test {
namespace {

constexpr float kPoison = -8192;  // exact in 16 bits
constexpr int32_t kLoadBefore = 1000;

// Of what the magnitudes of all terms add up to: activations and results are rounded to 8 bits.
constexpr double kTolerance = 0x1p-7;

// A launch's tensors on the GPU, in bf16.
class GpuMoeLayerLaunch {
 public:
  GpuMoeLayerLaunch(World& world, MoeLayerData data, MoeIds::Type ids = MoeIds::Type::kInt64)
      : device_(world.state().device()), data_(std::move(data)) {
    const MoeLayerShape& shape = data_.problem().shape;
    const int64_t experts = data_.problem().local_experts();
    for (int rank = 0; rank < world.size(); ++rank) {
      const MoeRank& own = data_.routing().rank(rank);
      const std::vector<int32_t> narrow(own.ids.begin(), own.ids.end());
      const bool is_narrow = ids == MoeIds::Type::kInt32;
      args_.push_back({.x = {keep(halves(own.x)), DType::kBf16, own.tokens, shape.hidden},
                       .topk_idx = {is_narrow ? keep(narrow) : keep(own.ids), ids},
                       .topk_weight = static_cast<const float*>(keep(own.weights)),
                       .w13 = {keep(halves(data_.w13(rank))), DType::kBf16, experts * 2 * shape.inter, shape.hidden},
                       .w2 = {keep(halves(data_.w2(rank))), DType::kBf16, experts * shape.hidden, shape.inter},
                       .out = {keep(poison(own.tokens)), DType::kBf16, own.tokens, shape.hidden},
                       .load = static_cast<int32_t*>(keep(std::vector<int32_t>(experts, kLoadBefore))),
                       .stream = world.rank_stream(rank)});
    }
  }

  // Another launch of the same shape and as many tokens into the same memory; its ids are passed in 64 bits.
  void refill(MoeLayerData data) {
    data_ = std::move(data);
    for (size_t rank = 0; rank < args_.size(); ++rank) {
      const MoeRank& own = data_.routing().rank(static_cast<int>(rank));
      const MoeLayerArgs& args = args_[rank];
      upload(args.x.data, halves(own.x));
      upload(const_cast<void*>(args.topk_idx.data), own.ids);
      upload(const_cast<float*>(args.topk_weight), own.weights);
      upload(args.w13.data, halves(data_.w13(static_cast<int>(rank))));
      upload(args.w2.data, halves(data_.w2(static_cast<int>(rank))));
      upload(args.out.data, poison(own.tokens));
      upload(args.load, std::vector<int32_t>(data_.problem().local_experts(), kLoadBefore));
    }
  }

  // All ranks but one.
  void enqueue_without(World& world, int missing) {
    const Split chosen;
    const runtime::Plan& plan = moe::plan_for(world.state(), data_.problem(), chosen);
    for (int rank = 0; rank < world.size(); ++rank) {
      if (rank != missing) moe::launch_rank(world.state(), plan, rank, args_[rank]);
    }
  }
  void enqueue(World& world, const Split& split = {}) { moe_layer(world, data_.problem().shape, args_, {split}); }

  testing::AssertionResult is_right() const {
    return each_rank_is_right(static_cast<int>(args_.size()), [&](int rank) {
      const auto right = data_.is_right(rank, out(rank), kTolerance);
      std::vector<int32_t> load(data_.problem().local_experts());
      device_.download(load.data(), args_[rank].load, load.size() * sizeof(int32_t));
      return right ? data_.routing().is_right_load(rank, load, kLoadBefore) : right;
    });
  }
  bool is_untouched() const {
    for (size_t rank = 0; rank < args_.size(); ++rank) {
      for (const float value : out(static_cast<int>(rank))) {
        if (value != kPoison) return false;
      }
    }
    return true;
  }
  std::vector<float> out(int rank) const {
    std::vector<Bf16> bits(args_[rank].out.rows * args_[rank].out.cols);
    device_.download(bits.data(), args_[rank].out.data, bits.size() * sizeof(Bf16));
    return floats(bits);
  }

 private:
  std::vector<Bf16> poison(int64_t tokens) const {
    return std::vector<Bf16>(tokens * data_.problem().shape.hidden, from_float<Bf16>(kPoison));
  }
  template <class T>
  void* keep(const std::vector<T>& values) {
    runtime::Buffer& buffer = buffers_.emplace_back(device_, std::max<size_t>(16, values.size() * sizeof(T)));
    upload(buffer.as<void>(), values);
    return buffer.as<void>();
  }
  template <class T>
  void upload(void* to, const std::vector<T>& values) {
    if (!values.empty()) device_.upload(to, values.data(), values.size() * sizeof(T));
  }

  runtime::Device& device_;
  MoeLayerData data_;
  std::vector<runtime::Buffer> buffers_;
  std::vector<MoeLayerArgs> args_;
};

moe::LayerProblem gpu_problem(const WorldShape& world, int local_experts, int topk, int64_t max_tokens, int64_t hidden,
                              int64_t inter, int64_t max_rows = 0) {
  moe::LayerProblem problem = layer_problem(world, local_experts, topk, max_tokens, max_rows, hidden, inter);
  problem.dtype = DType::kBf16;
  return problem;
}

testing::AssertionResult runs_right(World& world, const moe::LayerProblem& problem, int launches, uint64_t seed,
                                    const Split& split = {}) {
  std::vector<std::unique_ptr<GpuMoeLayerLaunch>> queued;
  for (int launch = 0; launch < launches; ++launch) {
    const Routing routing = kRoutings[(seed + launch) % std::size(kRoutings)];
    const auto ids = launch % 2 == 0 ? MoeIds::Type::kInt64 : MoeIds::Type::kInt32;
    queued.push_back(
        std::make_unique<GpuMoeLayerLaunch>(world, MoeLayerData(problem, routing, seed_of(seed, launch)), ids));
  }
  world.state().device().synchronize();
  for (auto& launch : queued) launch->enqueue(world, split);
  world.synchronize();
  for (const auto& launch : queued) {
    if (const auto right = launch->is_right(); !right) return right;
  }
  return testing::AssertionSuccess();
}

class GpuMoeLayer : public testing::TestWithParam<WorldShape> {};
INSTANTIATE_TEST_SUITE_P(Worlds, GpuMoeLayer,
                         testing::Values(WorldShape{1, 1}, WorldShape{1, 3}, WorldShape{1, 4}, WorldShape{2, 1},
                                         WorldShape{2, 2}, WorldShape{3, 2}, WorldShape{2, 8}),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(GpuMoeLayer, IsRightLaunchAfterLaunchWhateverTheRouting) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  for (const int local_experts : {1, 5}) {
    for (const int topk : {1, 3, 8}) {
      const int slots = std::min(topk, local_experts * world.size());
      EXPECT_TRUE(runs_right(world, gpu_problem(GetParam(), local_experts, slots, 50, 72, 40), 6,
                             seed_of(topk, local_experts)));
    }
  }
}

// High tiles, several to a block, ends of experts inside them, and columns that are no multiple of a tile.
TEST_P(GpuMoeLayer, ManyRowsAnExpertAreRight) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  const moe::LayerProblem problem = gpu_problem(GetParam(), 2, 2, 500, 264, 136);
  EXPECT_TRUE(runs_right(world, problem, 3, 1));
}

// Between nodes three phases, with ends of experts and of phases inside tiles.
TEST_P(GpuMoeLayer, SeveralPhasesAreRight) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  const moe::LayerProblem problem = gpu_problem(GetParam(), 1, std::min(2, world.size()), 1500, 72, 136);
  EXPECT_TRUE(runs_right(world, problem, 6, 5));
}

TEST_P(GpuMoeLayer, SharedExpertsAreRight) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  for (const int shared : {1, 3}) {
    const moe::LayerProblem problem = gpu_problem(GetParam(), 2, 2, 70, 72, 136);
    EXPECT_TRUE(runs_right(world, with_shared(problem, shared), 6, 7)) << shared;
  }
}

TEST_P(GpuMoeLayer, RowsThatDoNotFitAreDropped) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  for (const int shared : {0, 1}) {
    moe::LayerProblem problem = gpu_problem(GetParam(), 2, 2, 70, 72, 136);
    problem.shape.shared = shared;
    problem.shape.max_rows = shared * 70 + 50;
    problem.shape.overflow = MoeOverflow::kDrop;
    EXPECT_TRUE(runs_right(world, problem, 6, 7)) << shared;
  }
}

// Low and high tiles.
TEST_P(GpuMoeLayer, AClampBoundsGateAndUp) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  for (const int tokens : {50, 500}) {
    moe::LayerProblem problem = gpu_problem(GetParam(), 2, 2, tokens, 72, 136);
    problem.shape.activation_clamp = 0.75f;
    EXPECT_TRUE(runs_right(world, problem, 3, 1)) << tokens;
  }
}

TEST_P(GpuMoeLayer, AnySplitGivesTheSameBits) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  const moe::LayerProblem problem = gpu_problem(GetParam(), 2, 2, 200, 72, 136);
  std::vector<std::vector<float>> bits;
  for (const auto& [send, compute] : {std::pair{2, 3}, std::pair{3, 5}, std::pair{1, 1}}) {
    Split split{{"compute", compute}};
    if (GetParam().nodes > 1) split["send"] = send;
    GpuMoeLayerLaunch launch(world, MoeLayerData(problem, Routing::kUniform, 11));
    world.state().device().synchronize();
    launch.enqueue(world, split);
    world.synchronize();
    EXPECT_TRUE(launch.is_right()) << compute;
    std::vector<float> all;
    for (int rank = 0; rank < world.size(); ++rank) {
      const std::vector<float> own = launch.out(rank);
      all.insert(all.end(), own.begin(), own.end());
    }
    bits.push_back(std::move(all));
    EXPECT_EQ(bits.front(), bits.back()) << compute;
  }
}

TEST(GpuMoeLayerGraph, ReplaysWithRoutingThatChanges) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 2}}) {
    World world = gpu_world(shape);
    const moe::LayerProblem problem = gpu_problem(shape, 3, 2, 50, 24, 40);
    const auto data_of = [&](int i) {
      MoeLayerData data(problem, kRoutings[i % std::size(kRoutings)], i);
      data.routing() = MoeLaunchData(problem.dispatch(), kRoutings[i % std::size(kRoutings)], i, 50);
      return data;
    };
    GpuMoeLayerLaunch launch(world, data_of(0));
    world.state().device().synchronize();
    Captured captured(world, [&] { launch.enqueue(world); });
    for (int i = 1; i <= 20; ++i) {
      launch.refill(data_of(i));
      captured.replay();
      ASSERT_TRUE(launch.is_right()) << "replay " << i;
    }
  }
}

TEST(GpuMoeLayerFault, ARankThatNeverStartsIsNamedAndANewWorldWorks) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 2}}) {
    const moe::LayerProblem problem = gpu_problem(shape, 2, 2, 200, 24, 40);
    World world = gpu_world(shape, {.timeout_ms = 200});
    GpuMoeLayerLaunch launch(world, MoeLayerData(problem, Routing::kUniform, 1));
    world.state().device().synchronize();
    launch.enqueue_without(world, 1);
    EXPECT_TRUE(throws(ErrorCode::kTimeout, {" for counted[rank 1]", "launch 1"}, [&] { world.synchronize(); }));
    World another = gpu_world(shape);
    EXPECT_TRUE(runs_right(another, problem, 3, 1));
  }
}

TEST(GpuMoeLayerRefusal, NamesTheRankAndTheWorldGoesOn) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 2}}) {
    World world = gpu_world(shape);
    const moe::LayerProblem problem = gpu_problem(shape, 2, 2, 40, 16, 16, 50);
    // Every `every`-th pair of a rank's 40 tokens goes to expert 1.
    const auto to_expert_1 = [&](int64_t every) {
      MoeLayerData data(problem, Routing::kUniform, 3);
      data.routing() = MoeLaunchData(problem.dispatch(), Routing::kUniform, 3, 40);
      for (int rank = 0; rank < shape.size(); ++rank) {
        std::vector<int64_t>& ids = data.routing().rank(rank).ids;
        for (int64_t i = 0; i < std::ssize(ids); ++i) ids[i] = i % every == 0 ? 1 : -1;
      }
      return data;
    };
    GpuMoeLayerLaunch before(world, to_expert_1(20));
    GpuMoeLayerLaunch too_many(world, to_expert_1(1));
    GpuMoeLayerLaunch after(world, to_expert_1(32));
    world.state().device().synchronize();
    before.enqueue(world);
    too_many.enqueue(world);
    after.enqueue(world);
    EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"refused launch 2", "max_rows"}, [&] { world.synchronize(); }));
    EXPECT_FALSE(world.failed());
    EXPECT_TRUE(before.is_right());
    EXPECT_TRUE(too_many.is_untouched());
    EXPECT_TRUE(after.is_right());
  }
}

}  // namespace
}  // namespace mk::test

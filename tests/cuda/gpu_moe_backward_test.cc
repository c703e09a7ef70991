// SPDX-License-Identifier: MIT
// tests/cuda/gpu_moe_backward_test.cc — moe_layer_backward on a GPU: every element of every gradient is right, whatever
// the routing; and it is the gradient of what moe_layer computes there.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/half.h"
#include "ops/moe/moe_backward_targets.h"
#include "tests/cuda/captured.h"
#include "tests/cuda/gpu_launch.h"
#include "tests/support/each_rank.h"
#include "tests/support/expect_error.h"
#include "tests/support/halves.h"
#include "tests/support/moe_backward_data.h"

namespace mk::test {
namespace {

constexpr float kPoison = -8192;  // exact in 16 bits

// Of what the magnitudes of all terms add up to: activations and results are rounded to 8 bits.
constexpr double kTolerance = 0x1p-7;

// A launch's tensors on the GPU, in bf16.
class GpuMoeBackwardLaunch {
 public:
  GpuMoeBackwardLaunch(World& world, MoeBackwardData data) : device_(world.state().device()), data_(std::move(data)) {
    data_.layer().routing().set_phases(DeviceKind::kCuda);
    const MoeLayerData& layer = data_.layer();
    const MoeLayerShape& shape = layer.problem().shape;
    const int64_t experts = layer.problem().local_experts();
    const auto tensor = [&](const std::vector<float>& values, int64_t rows, int64_t cols) {
      return Tensor{keep(halves(values)), DType::kBf16, rows, cols};
    };
    for (int rank = 0; rank < world.size(); ++rank) {
      const MoeRank& own = layer.routing().rank(rank);
      const MoeGradients poison = MoeGradients::filled(layer, rank, kPoison);
      args_.push_back({.x = tensor(own.x, own.tokens, shape.hidden),
                       .topk_idx = {keep(own.ids)},
                       .topk_weight = static_cast<const float*>(keep(own.weights)),
                       .w13 = tensor(layer.w13(rank), experts * 2 * shape.inter, shape.hidden),
                       .w2 = tensor(layer.w2(rank), experts * shape.hidden, shape.inter),
                       .kept = tensor(data_.kept(rank), shape.max_rows, 2 * shape.inter),
                       .dout = tensor(data_.dout(rank), own.tokens, shape.hidden),
                       .dx = tensor(poison.dx, own.tokens, shape.hidden),
                       .dtopk_weight = static_cast<float*>(keep(poison.scores)),
                       .dw13 = tensor(poison.dw13, experts * 2 * shape.inter, shape.hidden),
                       .dw2 = tensor(poison.dw2, experts * shape.hidden, shape.inter),
                       .stream = world.rank_stream(rank)});
    }
  }

  // Another launch of the same shape and as many tokens into the same memory.
  void refill(MoeBackwardData data) {
    data_ = std::move(data);
    data_.layer().routing().set_phases(DeviceKind::kCuda);
    for (size_t i = 0; i < args_.size(); ++i) {
      const int rank = static_cast<int>(i);
      const MoeRank& own = data_.layer().routing().rank(rank);
      const MoeLayerBackwardArgs& args = args_[i];
      const MoeGradients poison = MoeGradients::filled(data_.layer(), rank, kPoison);
      upload(args.x.data, halves(own.x));
      upload(const_cast<void*>(args.topk_idx.data), own.ids);
      upload(const_cast<float*>(args.topk_weight), own.weights);
      upload(args.w13.data, halves(data_.layer().w13(rank)));
      upload(args.w2.data, halves(data_.layer().w2(rank)));
      upload(args.kept.data, halves(data_.kept(rank)));
      upload(args.dout.data, halves(data_.dout(rank)));
      upload(args.dx.data, halves(poison.dx));
      upload(args.dtopk_weight, poison.scores);
      upload(args.dw13.data, halves(poison.dw13));
      upload(args.dw2.data, halves(poison.dw2));
    }
  }

  void enqueue(World& world, const Split& split = {}) {
    moe_layer_backward(world, data_.layer().problem().shape, args_, {split});
  }
  // All ranks but one.
  void enqueue_without(World& world, int missing) {
    const runtime::Plan& plan = moe::backward_plan_for(world.state(), data_.layer().problem(), Split{});
    for (int rank = 0; rank < world.size(); ++rank) {
      if (rank != missing) moe::launch_rank(world.state(), plan, rank, args_[rank]);
    }
  }

  MoeGradients seen(int rank) const {
    const MoeLayerBackwardArgs& args = args_[rank];
    MoeGradients seen{fetch(args.dx), {}, fetch(args.dw13), fetch(args.dw2)};
    seen.scores.resize(data_.layer().routing().rank(rank).ids.size());
    if (!seen.scores.empty()) {
      device_.download(seen.scores.data(), args.dtopk_weight, seen.scores.size() * sizeof(float));
    }
    return seen;
  }
  testing::AssertionResult is_right() const {
    return each_rank_is_right(static_cast<int>(args_.size()),
                              [&](int rank) { return data_.is_right(rank, seen(rank), kTolerance); });
  }
  bool is_untouched() const {
    for (size_t rank = 0; rank < args_.size(); ++rank) {
      if (!seen(static_cast<int>(rank)).is_all(kPoison)) return false;
    }
    return true;
  }
  std::vector<MoeLayerBackwardArgs>& args() { return args_; }

 private:
  std::vector<float> fetch(const Tensor& tensor) const {
    std::vector<Bf16> bits(tensor.rows * tensor.cols);
    if (!bits.empty()) device_.download(bits.data(), tensor.data, bits.size() * sizeof(Bf16));
    return floats(bits);
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
  MoeBackwardData data_;
  std::vector<runtime::Buffer> buffers_;
  std::vector<MoeLayerBackwardArgs> args_;
};

moe::LayerProblem gpu_problem(const WorldShape& world, int local_experts, int topk, int64_t max_tokens, int64_t hidden,
                              int64_t inter, int64_t max_rows = 0) {
  moe::LayerProblem problem = layer_problem(world, local_experts, topk, max_tokens, max_rows, hidden, inter);
  problem.dtype = DType::kBf16;
  return problem;
}

testing::AssertionResult runs_right(World& world, const moe::LayerProblem& problem, int launches, uint64_t seed) {
  std::vector<std::unique_ptr<GpuMoeBackwardLaunch>> queued;
  for (int launch = 0; launch < launches; ++launch) {
    const Routing routing = kRoutings[(seed + launch) % std::size(kRoutings)];
    queued.push_back(
        std::make_unique<GpuMoeBackwardLaunch>(world, MoeBackwardData(problem, routing, seed_of(seed, launch))));
  }
  world.state().device().synchronize();
  for (auto& launch : queued) launch->enqueue(world);
  world.synchronize();
  for (const auto& launch : queued) {
    if (const auto right = launch->is_right(); !right) return right;
  }
  return testing::AssertionSuccess();
}

class GpuMoeBackward : public testing::TestWithParam<WorldShape> {};
INSTANTIATE_TEST_SUITE_P(Worlds, GpuMoeBackward,
                         testing::Values(WorldShape{1, 1}, WorldShape{1, 3}, WorldShape{1, 4}, WorldShape{2, 1},
                                         WorldShape{2, 2}, WorldShape{3, 2}, WorldShape{2, 8}),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(GpuMoeBackward, IsRightLaunchAfterLaunchWhateverTheRouting) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  for (const int local_experts : {1, 5}) {
    for (const int topk : {1, 3, 8}) {
      const int slots = std::min(topk, local_experts * world.size());
      EXPECT_TRUE(runs_right(world, gpu_problem(GetParam(), local_experts, slots, 20, 72, 40), 4,
                             seed_of(topk, local_experts)));
    }
  }
}

// Several tiles of every kind, ends of experts inside them, and sizes that are no multiple of a tile.
TEST_P(GpuMoeBackward, ManyRowsAnExpertAreRight) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  EXPECT_TRUE(runs_right(world, gpu_problem(GetParam(), 2, 2, 1000 / world.size(), 264, 136), 2, 1));
}

TEST_P(GpuMoeBackward, SeveralPhasesAreRight) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  EXPECT_TRUE(runs_right(world, gpu_problem(GetParam(), 1, std::min(2, world.size()), 1500, 72, 136), 2, 5));
}

TEST_P(GpuMoeBackward, SharedExpertsAreRight) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  EXPECT_TRUE(runs_right(world, with_shared(gpu_problem(GetParam(), 2, 2, 70, 72, 136), 2), 6, 7));
}

TEST_P(GpuMoeBackward, RowsThatDoNotFitAreDropped) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  moe::LayerProblem problem = gpu_problem(GetParam(), 2, 2, 70, 72, 136, 50);
  problem.shape.overflow = MoeOverflow::kDrop;
  EXPECT_TRUE(runs_right(world, problem, 6, 7));
}

TEST_P(GpuMoeBackward, AClampZeroesGradientsBeyondIt) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  moe::LayerProblem problem = gpu_problem(GetParam(), 2, 2, 40, 72, 136);
  problem.shape.activation_clamp = 0.75f;
  EXPECT_TRUE(runs_right(world, problem, 3, 1));
}

TEST_P(GpuMoeBackward, AnySplitGivesTheSameBits) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  const moe::LayerProblem problem = gpu_problem(GetParam(), 2, 2, 50, 72, 136);
  std::vector<MoeGradients> first;
  for (const auto& [send, compute] : {std::pair{2, 3}, std::pair{1, 1}, std::pair{3, 5}}) {
    Split split{{"compute", compute}};
    if (GetParam().nodes > 1) split["send"] = send;
    GpuMoeBackwardLaunch launch(world, MoeBackwardData(problem, Routing::kUniform, 11));
    world.state().device().synchronize();
    launch.enqueue(world, split);
    world.synchronize();
    EXPECT_TRUE(launch.is_right()) << compute;
    for (int rank = 0; rank < world.size(); ++rank) {
      const MoeGradients seen = launch.seen(rank);
      if (std::ssize(first) <= rank) first.push_back(seen);
      EXPECT_EQ(seen.dx, first[rank].dx);
      EXPECT_EQ(seen.scores, first[rank].scores);
      EXPECT_EQ(seen.dw13, first[rank].dw13);
      EXPECT_EQ(seen.dw2, first[rank].dw2);
    }
  }
}

TEST(GpuMoeBackwardGraph, ReplaysWithRoutingThatChanges) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 2}}) {
    World world = gpu_world(shape);
    const moe::LayerProblem problem = gpu_problem(shape, 3, 2, 50, 24, 40);
    const auto data_of = [&](int i) {
      MoeLayerData layer(problem, kRoutings[i % std::size(kRoutings)], i);
      layer.routing() = MoeLaunchData(problem.dispatch(), kRoutings[i % std::size(kRoutings)], i, 50);
      return MoeBackwardData(std::move(layer), i);
    };
    GpuMoeBackwardLaunch launch(world, data_of(0));
    world.state().device().synchronize();
    Captured captured(world, [&] { launch.enqueue(world); });
    for (int i = 1; i <= 12; ++i) {
      launch.refill(data_of(i));
      captured.replay();
      ASSERT_TRUE(launch.is_right()) << "replay " << i;
    }
  }
}

TEST(GpuMoeBackwardFault, ARankThatNeverStartsIsNamed) {
  MK_NEEDS_GPU();
  const WorldShape shape{2, 2};
  const moe::LayerProblem problem = gpu_problem(shape, 2, 2, 60, 24, 40);
  World world = gpu_world(shape, {.timeout_ms = 200});
  GpuMoeBackwardLaunch launch(world, MoeBackwardData(problem, Routing::kUniform, 1));
  world.state().device().synchronize();
  launch.enqueue_without(world, 1);
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {" for counted[rank 1]", "launch 1"}, [&] { world.synchronize(); }));
  World another = gpu_world(shape);
  EXPECT_TRUE(runs_right(another, problem, 2, 1));
}

TEST(GpuMoeBackwardRefusal, NamesTheRankAndTheWorldGoesOn) {
  MK_NEEDS_GPU();
  const WorldShape shape{2, 2};
  World world = gpu_world(shape);
  const moe::LayerProblem problem = gpu_problem(shape, 2, 2, 40, 16, 16, 50);
  GpuMoeBackwardLaunch before(world, MoeBackwardData(problem, Routing::kNone, 1));
  GpuMoeBackwardLaunch too_many(world, MoeBackwardData(problem, Routing::kOneExpert, 3));
  GpuMoeBackwardLaunch after(world, MoeBackwardData(problem, Routing::kNone, 2));
  world.state().device().synchronize();
  before.enqueue(world);
  too_many.enqueue(world);
  after.enqueue(world);
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"refused launch 2", "max_rows"}, [&] { world.synchronize(); }));
  EXPECT_TRUE(before.is_right());
  EXPECT_TRUE(too_many.is_untouched());
  EXPECT_TRUE(after.is_right());
}

// What moe_layer keeps: gate and up of each row, in the order of rows, and nothing behind them.
TEST(GpuMoeLayerKeeps, GateAndUpOfEveryRow) {
  MK_NEEDS_GPU();
  // Low and high tiles.  A clamp does not bound what is kept.
  for (const auto& [tokens, clamp] : {std::pair{30, 0.0f}, std::pair{700, 0.0f}, std::pair{700, 0.5f}}) {
    const WorldShape shape{1, 2};
    World world = gpu_world(shape);
    moe::LayerProblem problem = gpu_problem(shape, 2, 2, tokens, 72, 136);
    problem.shape.activation_clamp = clamp;
    const MoeLayerData layer(problem, Routing::kUniform, 5);
    GpuMoeBackwardLaunch data(world, MoeBackwardData(layer, 5));
    runtime::Device& device = world.state().device();
    const int64_t cols = 2 * problem.shape.inter;
    std::vector<Bf16> poison(problem.shape.max_rows * cols, from_float<Bf16>(kPoison));
    std::vector<MoeLayerArgs> args;
    for (int rank = 0; rank < world.size(); ++rank) {
      const MoeLayerBackwardArgs& own = data.args()[rank];
      device.upload(own.kept.data, poison.data(), poison.size() * sizeof(Bf16));
      args.push_back({.x = own.x,
                      .topk_idx = own.topk_idx,
                      .topk_weight = own.topk_weight,
                      .w13 = own.w13,
                      .w2 = own.w2,
                      .out = own.dx,
                      .kept = own.kept,
                      .stream = own.stream});
    }
    device.synchronize();
    moe_layer(world, problem.shape, args);
    world.synchronize();
    for (int rank = 0; rank < world.size(); ++rank) {
      std::vector<Bf16> kept(poison.size());
      device.download(kept.data(), args[rank].kept.data, kept.size() * sizeof(Bf16));
      int64_t row = 0;
      int wrong = 0;
      for (int local = 0; local < problem.local_experts(); ++local) {
        const float* const w13 = layer.w13(rank).data() + local * cols * problem.shape.hidden;
        for (const MoeRow& of : layer.routing().rows_of(rank * problem.local_experts() + local)) {
          const float* const x = &layer.routing().rank(of.rank).x[of.pair / problem.shape.topk * problem.shape.hidden];
          for (int64_t col = 0; col < cols; ++col) {
            float sum = 0;  // exact: multiples of 1/64
            for (int64_t k = 0; k < problem.shape.hidden; ++k) sum += x[k] * w13[col * problem.shape.hidden + k];
            wrong += to_float(kept[row * cols + col]) != to_float(from_float<Bf16>(sum)) ? 1 : 0;
          }
          ++row;
        }
      }
      for (size_t i = row * cols; i < kept.size(); ++i) wrong += to_float(kept[i]) != kPoison ? 1 : 0;
      EXPECT_EQ(wrong, 0) << "rank " << rank << ", " << tokens << " tokens";
    }
  }
}

}  // namespace
}  // namespace mk::test

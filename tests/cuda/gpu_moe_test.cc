// SPDX-License-Identifier: MIT
// tests/cuda/gpu_moe_test.cc — moe_dispatch_gemm on a GPU: every element is right, whatever the routing.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "base/half.h"
#include "mkernel/moe.h"
#include "tests/cuda/captured.h"
#include "tests/cuda/gpu_launch.h"
#include "tests/support/each_rank.h"
#include "tests/support/expect_error.h"
#include "tests/support/halves.h"
#include "tests/support/moe_data.h"
#include "tests/support/moe_told_drops.h"

namespace mk::test {
namespace {

constexpr float kPoison = -8192;  // exact in 16 bits
constexpr int32_t kLoadBefore = 1000;

// A launch's tensors on the GPU, in bf16; whole numbers up to 256 are exact in it.
class GpuMoeLaunch {
 public:
  GpuMoeLaunch(World& world, MoeLaunchData data, BOrder order, MoeIds::Type ids)
      : device_(world.state().device()), data_(std::move(data)) {
    data_.set_phases(DeviceKind::kCuda);
    const MoeShape& shape = data_.problem().shape;
    const int64_t experts = data_.problem().local_experts();
    for (int rank = 0; rank < world.size(); ++rank) {
      const MoeRank& own = data_.rank(rank);
      std::vector<int32_t> narrow(own.ids.begin(), own.ids.end());
      std::vector<float> w = own.w;
      if (order == BOrder::kNK) {
        for (int64_t i = 0; i < std::ssize(w); ++i) {
          const int64_t expert = i / (shape.hidden * shape.n);
          const int64_t in = i % (shape.hidden * shape.n);
          w[i] = own.w[(expert * shape.hidden + in % shape.hidden) * shape.n + in / shape.hidden];
        }
      }
      const bool is_kn = order == BOrder::kKN;
      const bool is_narrow = ids == MoeIds::Type::kInt32;
      Rank& on = ranks_.emplace_back();
      on.y = keep(halves(std::vector<float>(shape.max_rows * shape.n, kPoison)));
      on.origins = keep(std::vector<int32_t>(shape.max_rows * 4, -1));
      on.expert_rows = keep(std::vector<int32_t>(experts, -1));
      on.expert_ends = keep(std::vector<int32_t>(experts, -1));
      on.load = keep(std::vector<int32_t>(experts, kLoadBefore));
      args_.push_back({.x = {keep(halves(own.x)), DType::kBf16, own.tokens, shape.hidden},
                       .topk_idx = {is_narrow ? keep(narrow) : keep(own.ids), ids},
                       .topk_weight = static_cast<const float*>(keep(own.weights)),
                       .w = {keep(halves(w)), DType::kBf16, experts * (is_kn ? shape.hidden : shape.n),
                             is_kn ? shape.n : shape.hidden},
                       .y = {on.y, DType::kBf16, shape.max_rows, shape.n},
                       .origins = static_cast<int32_t*>(on.origins),
                       .expert_rows = static_cast<int32_t*>(on.expert_rows),
                       .expert_ends = static_cast<int32_t*>(on.expert_ends),
                       .load = static_cast<int32_t*>(on.load),
                       .w_order = order,
                       .stream = world.rank_stream(rank)});
      if (shape.overflow == MoeOverflow::kRefuse) continue;
      args_.back().routed_idx = static_cast<int32_t*>(keep(std::vector<int32_t>(own.ids.size() + 1, kUntold)));
      args_.back().dropped = static_cast<int32_t*>(keep(std::vector<int32_t>(data_.named_slots() + 1, kUntold)));
    }
  }

  // Another launch of the same shape and as many tokens into the same memory; its ids are passed in 64 bits.
  void refill(MoeLaunchData data) {
    data_ = std::move(data);
    data_.set_phases(DeviceKind::kCuda);
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const MoeRank& own = data_.rank(static_cast<int>(rank));
      const MoeDispatchGemmArgs& args = args_[rank];
      upload(args.x.data, halves(own.x));
      upload(const_cast<void*>(args.topk_idx.data), own.ids);
      upload(const_cast<float*>(args.topk_weight), own.weights);
      upload(args.w.data, halves(own.w));
      upload(args.y.data, halves(std::vector<float>(args.y.rows * args.y.cols, kPoison)));
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

  void enqueue(World& world, const MoeDispatchGemmOptions& options = {}) {
    moe_dispatch_gemm(world, data_.problem().shape, args_, options);
  }

  testing::AssertionResult is_right() const {
    const MoeShape& shape = data_.problem().shape;
    const size_t experts = data_.problem().local_experts();
    return each_rank_is_right(static_cast<int>(ranks_.size()), [&](int rank) {
      const Rank& own = ranks_[rank];
      const auto right =
          data_.is_right(rank, y(rank), fetch<int32_t>(own.origins, shape.max_rows * 4),
                         fetch<int32_t>(own.expert_rows, experts), fetch<int32_t>(own.expert_ends, experts), kPoison);
      const auto right_load = data_.is_right_load(rank, fetch<int32_t>(own.load, experts), kLoadBefore);
      if (!right || !right_load || shape.overflow == MoeOverflow::kRefuse) return right ? right_load : right;
      return are_right_drops(data_, rank, fetch<int32_t>(args_[rank].routed_idx, data_.rank(rank).ids.size() + 1),
                             fetch<int32_t>(args_[rank].dropped, data_.named_slots() + 1));
    });
  }
  bool is_untouched() const {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const float value : y(static_cast<int>(rank))) {
        if (value != kPoison) return false;
      }
    }
    return true;
  }

 private:
  struct Rank {
    void* y;
    void* origins;
    void* expert_rows;
    void* expert_ends;
    void* load;
  };

  template <class T>
  void* keep(const std::vector<T>& values) {
    runtime::Buffer& buffer = buffers_.emplace_back(device_, std::max<size_t>(16, values.size() * sizeof(T)));
    upload(buffer.as<void>(), values);
    return buffer.as<void>();
  }
  template <class T>
  void upload(void* to, const std::vector<T>& values) {
    device_.upload(to, values.data(), values.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> fetch(const void* from, size_t count) const {
    std::vector<T> values(count);
    device_.download(values.data(), from, count * sizeof(T));
    return values;
  }
  std::vector<float> y(int rank) const {
    const MoeShape& shape = data_.problem().shape;
    return floats(fetch<Bf16>(ranks_[rank].y, shape.max_rows * shape.n));
  }

  runtime::Device& device_;
  MoeLaunchData data_;
  std::vector<runtime::Buffer> buffers_;
  std::vector<Rank> ranks_;
  std::vector<MoeDispatchGemmArgs> args_;
};

moe::Problem gpu_problem(const WorldShape& world, int local_experts, int topk, int64_t max_tokens, int64_t hidden,
                         int64_t n) {
  moe::Problem problem = moe_problem(world, local_experts, topk, max_tokens, 0, hidden, n);
  problem.dtype = DType::kBf16;
  return problem;
}

testing::AssertionResult runs_right(World& world, const moe::Problem& problem, int launches, uint64_t seed,
                                    const Split& split = {}) {
  std::vector<std::unique_ptr<GpuMoeLaunch>> queued;
  for (int launch = 0; launch < launches; ++launch) {
    const Routing routing = kRoutings[(seed + launch) % std::size(kRoutings)];
    const auto ids = launch % 2 == 0 ? MoeIds::Type::kInt64 : MoeIds::Type::kInt32;
    const BOrder order = problem.w_order;
    queued.push_back(
        std::make_unique<GpuMoeLaunch>(world, MoeLaunchData(problem, routing, seed_of(seed, launch)), order, ids));
  }
  world.state().device().synchronize();
  for (auto& launch : queued) launch->enqueue(world, {split});
  world.synchronize();
  for (const auto& launch : queued) {
    if (const auto right = launch->is_right(); !right) return right;
  }
  return testing::AssertionSuccess();
}

class GpuMoe : public testing::TestWithParam<WorldShape> {};
INSTANTIATE_TEST_SUITE_P(Worlds, GpuMoe,
                         testing::Values(WorldShape{1, 1}, WorldShape{1, 3}, WorldShape{1, 4}, WorldShape{2, 1},
                                         WorldShape{2, 2}, WorldShape{3, 2}, WorldShape{2, 8}),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(GpuMoe, IsRightLaunchAfterLaunchWhateverTheRouting) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  for (const int local_experts : {1, 5}) {
    for (const int topk : {1, 3, 8}) {
      const int slots = std::min(topk, local_experts * world.size());
      for (const BOrder order : {BOrder::kKN, BOrder::kNK}) {
        moe::Problem problem = gpu_problem(GetParam(), local_experts, slots, 70, 72, 136);
        problem.w_order = order;
        EXPECT_TRUE(runs_right(world, problem, 6, seed_of(topk, local_experts)));
      }
    }
  }
}

// High tiles, several to a block, and ends of experts inside them.
TEST_P(GpuMoe, ManyRowsAnExpertAreRight) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  const moe::Problem problem = gpu_problem(GetParam(), 2, 2, 700, 136, 264);
  EXPECT_TRUE(runs_right(world, problem, 3, 1));
  EXPECT_TRUE(runs_right(world, problem, 3, 2));
}

// Between nodes three phases, with ends of experts and of phases inside tiles.
TEST_P(GpuMoe, SeveralPhasesAreRight) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  const moe::Problem problem = gpu_problem(GetParam(), 1, std::min(2, world.size()), 1500, 72, 136);
  EXPECT_TRUE(runs_right(world, problem, 6, 5));
}

TEST_P(GpuMoe, AnySplitGivesTheSame) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  const moe::Problem problem = gpu_problem(GetParam(), 2, 2, 200, 72, 136);
  for (const auto& [send, compute] : {std::pair{2, 3}, std::pair{3, 5}, std::pair{1, 1}}) {
    Split split{{"compute", compute}};
    if (GetParam().nodes > 1) split["send"] = send;
    EXPECT_TRUE(runs_right(world, problem, 3, 11, split)) << compute;
  }
}

// Few rows and many; more slots than a warp has lanes.
TEST_P(GpuMoe, RowsThatDoNotFitAreDropped) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  for (const auto& [local_experts, topk, tokens, max_rows] :
       {std::tuple{2, 2, 60, 1}, std::tuple{2, 3, 200, 130}, std::tuple{40, 40, 30, 300}}) {
    const int slots = std::min(topk, local_experts * world.size());
    moe::Problem problem = gpu_problem(GetParam(), local_experts, slots, tokens, 24, 40);
    problem.shape.max_rows = max_rows;
    problem.shape.overflow = MoeOverflow::kDrop;
    EXPECT_TRUE(runs_right(world, problem, 6, seed_of(topk, max_rows))) << max_rows;
  }
}

// The routing of a replay is that of its inputs.
TEST(GpuMoeGraph, ReplaysWithRoutingThatChanges) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 2}}) {
    World world = gpu_world(shape);
    const moe::Problem problem = gpu_problem(shape, 3, 2, 50, 24, 40);
    const auto data_of = [&](int i) { return MoeLaunchData(problem, kRoutings[i % std::size(kRoutings)], i, 50); };
    GpuMoeLaunch launch(world, data_of(0), BOrder::kKN, MoeIds::Type::kInt64);
    world.state().device().synchronize();
    Captured captured(world, [&] { launch.enqueue(world); });
    for (int i = 1; i <= 40; ++i) {
      launch.refill(data_of(i));
      captured.replay();
      ASSERT_TRUE(launch.is_right()) << "replay " << i;
    }
  }
}

TEST(GpuMoeFault, ARankThatNeverStartsIsNamedAndANewWorldWorks) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 2}}) {
    const moe::Problem problem = gpu_problem(shape, 2, 2, 200, 24, 40);
    World world = gpu_world(shape, {.timeout_ms = 200});
    GpuMoeLaunch launch(world, MoeLaunchData(problem, Routing::kUniform, 1), BOrder::kKN, MoeIds::Type::kInt64);
    world.state().device().synchronize();
    launch.enqueue_without(world, 1);
    EXPECT_TRUE(throws(ErrorCode::kTimeout, {" for counted[rank 1]", "launch 1"}, [&] { world.synchronize(); }));
    World another = gpu_world(shape);
    EXPECT_TRUE(runs_right(another, problem, 3, 1));
  }
}

TEST(GpuMoeRefusal, NamesTheRankAndTheWorldGoesOn) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 2}}) {
    World world = gpu_world(shape);
    moe::Problem problem = gpu_problem(shape, 2, 2, 40, 16, 16);
    problem.shape.max_rows = 40;
    const auto launch_of = [&](Routing routing, int64_t tokens) {
      MoeLaunchData data(problem, routing, 3);
      for (int rank = 0; rank < shape.size(); ++rank) {
        MoeRank& own = data.rank(rank);
        own.tokens = tokens;
        own.ids.assign(tokens * 2, -1);
        for (int64_t i = 0; i < tokens; ++i) own.ids[2 * i] = routing == Routing::kOneExpert ? 1 : i % 4;
        own.weights.assign(tokens * 2, 1.0f);
        own.x.assign(tokens * 16, 1.0f);
      }
      return data;
    };
    GpuMoeLaunch before(world, launch_of(Routing::kUniform, 8), BOrder::kKN, MoeIds::Type::kInt32);
    GpuMoeLaunch too_many(world, launch_of(Routing::kOneExpert, 30), BOrder::kKN, MoeIds::Type::kInt64);
    GpuMoeLaunch after(world, launch_of(Routing::kUniform, 8), BOrder::kKN, MoeIds::Type::kInt64);
    world.state().device().synchronize();
    before.enqueue(world);
    too_many.enqueue(world);
    after.enqueue(world);
    EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"refused launch 2", "rank 0 would get", "max_rows", "expert 1"},
                       [&] { world.synchronize(); }));
    EXPECT_FALSE(world.failed());
    EXPECT_TRUE(before.is_right());
    EXPECT_TRUE(too_many.is_untouched());
    EXPECT_TRUE(after.is_right());
  }
}

TEST(GpuMoeRefusal, NamesAnIdThatNamesNoExpert) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  const moe::Problem problem = gpu_problem({1, 2}, 2, 2, 40, 16, 16);
  MoeLaunchData data(problem, Routing::kUniform, 1);
  for (uint64_t seed = 2; data.rank(1).tokens == 0; ++seed) data = MoeLaunchData(problem, Routing::kUniform, seed);
  data.rank(1).ids.back() = 4;
  const std::string token = std::to_string(data.rank(1).tokens - 1);
  GpuMoeLaunch launch(world, std::move(data), BOrder::kKN, MoeIds::Type::kInt64);
  world.state().device().synchronize();
  launch.enqueue(world);
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"rank 1 refused", "topk_idx of token " + token + ", slot 1 is 4"},
                     [&] { world.synchronize(); }));
  EXPECT_TRUE(launch.is_right());
}

}  // namespace
}  // namespace mk::test

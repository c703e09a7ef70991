// SPDX-License-Identifier: MIT
// tests/cuda/gpu_ring_attention_test.cc — ring_attention on a GPU: every element is right, whatever the mask.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "tests/attention/attention_data.h"
#include "tests/cuda/gpu_launch.h"
#include "tests/cuda/gpu_tensors.h"
#include "tests/support/each_rank.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

// A launch's tensors on the GPU; outputs are NaN before.
class GpuAttentionLaunch {
 public:
  GpuAttentionLaunch(World& world, const AttentionCase& at, uint64_t seed, uint64_t launch)
      : at_(at), data_(at, seed, launch), tensors_(world.state().device()) {
    const float* const sinks = at.sinks == Sinks::kGiven ? tensors_.keep(data_.sinks()) : nullptr;
    for (int rank = 0; rank < world.size(); ++rank) {
      const HeadTensor q = tensors_.keep(placed(at, rank, 0, data_.q(rank)));
      args_.push_back({.q = q,
                       .k = tensors_.keep(placed(at, rank, 1, data_.k(rank))),
                       .v = tensors_.keep(placed(at, rank, 2, data_.v(rank))),
                       .o = tensors_.keep(poisoned(at, rank, 3, data_.q(rank))),
                       .lse = static_cast<float*>(tensors_.poison(4 * q.batch * q.rows * q.heads)),
                       .sink = sinks,
                       .stream = world.rank_stream(rank)});
    }
  }

  void enqueue(World& world, const Split& split = {}) { ring_attention(world, args_, at_.options(split)); }
  void enqueue_without(World& world, int missing) {
    runtime::WorldState& state = world.state();
    const attention::Problem problem = attention::problem_of(state.shape(), state.members(), args_, at_.options());
    const Split chosen;
    const runtime::Plan& plan = attention::plan_for(state, problem, chosen);
    for (int rank = 0; rank < world.size(); ++rank) {
      if (rank != missing) attention::launch_rank(state, plan, rank, problem, args_[rank]);
    }
  }

  StridedHeads o(int rank) const { return tensors_.now(args_[rank].o, poisoned(at_, rank, 3, data_.q(rank))); }
  std::vector<RingAttentionArgs>& args() { return args_; }
  std::vector<float> lse(int rank) const {
    const HeadTensor& q = args_[rank].q;
    return tensors_.floats(args_[rank].lse, q.batch * q.rows * q.heads);
  }
  testing::AssertionResult is_right() const {
    return each_rank_is_right(static_cast<int>(args_.size()), [&](int rank) -> testing::AssertionResult {
      const StridedHeads seen = o(rank);
      if (!seen.gaps_are_untouched()) return testing::AssertionFailure() << "rank " << rank << " wrote into gaps";
      return data_.is_right(rank, values_in(seen, data_.q(rank)), lse(rank));
    });
  }
  bool has_the_bits_of(const GpuAttentionLaunch& other) const {
    for (int rank = 0; rank < static_cast<int>(args_.size()); ++rank) {
      if (o(rank).bytes != other.o(rank).bytes || !have_same_bits(lse(rank), other.lse(rank))) return false;
    }
    return true;
  }

 private:
  AttentionCase at_;
  AttentionData data_;
  GpuTensors tensors_;
  std::vector<RingAttentionArgs> args_;
};

testing::AssertionResult runs_right(World& world, const AttentionCase& at, int launches, uint64_t seed) {
  std::vector<GpuAttentionLaunch> queued;
  for (int launch = 0; launch < launches; ++launch) queued.emplace_back(world, at, seed, launch);
  for (GpuAttentionLaunch& launch : queued) launch.enqueue(world);
  world.synchronize();
  for (int launch = 0; launch < launches; ++launch) {
    if (const auto right = queued[launch].is_right(); !right) {
      return testing::AssertionFailure() << name_of(at.form) << ", " << at.shape.rows << " rows, dim " << at.shape.dim
                                         << ", launch " << launch << ": " << right.message();
    }
  }
  return testing::AssertionSuccess();
}

// Rows of one, of a prime, one past a tile, and of several tiles and blocks.  Every dim there is, with key heads for
// each query head and for several.  The host attends to every query in double: small shapes are for large worlds.
constexpr RingAttentionShape kShapes[] = {{1, 1, 1, 1, 64, DType::kBf16},
                                          {2, 37, 4, 1, 128, DType::kFp16},
                                          {1, 129, 2, 2, 64, DType::kFp16},
                                          {1, 65, 2, 1, 256, DType::kBf16},
                                          {1, 300, 8, 2, 128, DType::kBf16}};
constexpr size_t kSmallShapes = 4;

class GpuAttention : public testing::TestWithParam<std::tuple<WorldShape, SequenceOrder>> {
 protected:
  WorldShape shape = std::get<0>(GetParam());
  SequenceOrder order = std::get<1>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Worlds, GpuAttention,
                         testing::Combine(testing::Values(WorldShape{1, 1}, WorldShape{1, 2}, WorldShape{1, 5},
                                                          WorldShape{2, 1}, WorldShape{2, 2}, WorldShape{3, 2},
                                                          WorldShape{2, 8}),
                                          testing::Values(SequenceOrder::kContiguous, SequenceOrder::kZigzag)),
                         joined_names);

TEST_P(GpuAttention, IsRightWithEveryMask) {
  MK_NEEDS_GPU();
  World world = gpu_world(shape);
  int turn = shape.size() + shape.nodes;
  for (int mask = 0; mask < 5; ++mask, ++turn) {
    const size_t shapes = shape.size() > 4 ? kSmallShapes : std::size(kShapes);
    AttentionCase at = gpu_case(shape, order, kShapes[turn % shapes]);
    const AttentionMask masks[] = {{MaskKind::kFull},
                                   {MaskKind::kCausal},
                                   {MaskKind::kCausal, 1},
                                   {MaskKind::kCausal, 150},
                                   {MaskKind::kCausal, at.shape.rows + 3}};
    at.form.mask = masks[mask];
    if (turn % 2 == 0) at.sinks = Sinks::kGiven;
    if (turn % 3 == 0) at.scale = 0.05f;
    EXPECT_TRUE(runs_right(world, at, 2, seed_of(turn, mask)));
  }
}

// Sequences of one query, of less than a tile, and of several; they end inside tiles and pieces.
TEST_P(GpuAttention, PackedSequencesAreRight) {
  MK_NEEDS_GPU();
  World world = gpu_world(shape);
  int turn = shape.size();
  for (const uint64_t packing : {1, 2}) {
    for (const AttentionMask& mask :
         {AttentionMask{}, AttentionMask{MaskKind::kCausal}, AttentionMask{MaskKind::kCausal, 100}}) {
      const size_t shapes = shape.size() > 4 ? kSmallShapes : std::size(kShapes);
      AttentionCase at = gpu_case(shape, order, kShapes[++turn % shapes]);
      at.shape.batch = 1;
      at.form.mask = mask;
      at.form.packing = packing;
      if (turn % 2 == 0) at.sinks = Sinks::kGiven;
      EXPECT_TRUE(runs_right(world, at, 2, seed_of(turn, packing)));
    }
  }
}

// Views of larger tensors; sequences of a batch and packed ones.
TEST_P(GpuAttention, TensorsWithGapsAreRight) {
  MK_NEEDS_GPU();
  World world = gpu_world(shape);
  constexpr RingAttentionShape kWithGaps[] = {
      {2, 37, 4, 2, 128, DType::kFp16}, {3, 65, 4, 2, 64, DType::kBf16}, {1, 40, 2, 1, 256, DType::kBf16}};
  int turn = shape.size();
  for (const HeadsLie lie : kHeadsLies) {
    AttentionCase at = gpu_case(shape, order, kWithGaps[++turn % std::size(kWithGaps)]);
    at.form.mask.kind = turn % 4 < 2 ? MaskKind::kFull : MaskKind::kCausal;
    at.form.packing = turn % 2;
    if (at.form.packing != 0) at.shape.batch = 1;
    at.lie = lie;
    EXPECT_TRUE(runs_right(world, at, 2, seed_of(turn, 1))) << name_of(lie);
  }
}

// Every shape with masks that all engine configurations serve.
TEST(GpuAttentionShapes, AreRight) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 1}, WorldShape{2, 2}}) {
    World world = gpu_world(shape);
    for (const RingAttentionShape& one : kShapes) {
      for (const MaskKind mask : {MaskKind::kFull, MaskKind::kCausal}) {
        AttentionCase at = gpu_case(shape, SequenceOrder::kContiguous, one);
        at.form.mask.kind = mask;
        EXPECT_TRUE(runs_right(world, at, 2, seed_of(one.rows, one.dim)));
      }
    }
  }
}

TEST_P(GpuAttention, EveryRunAndEverySplitGivesTheSameBits) {
  MK_NEEDS_GPU();
  if (shape.size() > 6) GTEST_SKIP() << "eight ranks leave few splits";
  World world = gpu_world(shape);
  AttentionCase at = gpu_case(shape, order, {1, 300, 4, 2, 128, DType::kBf16});
  at.form.mask = {MaskKind::kCausal};
  std::vector<Split> splits = {{}, {}};
  for (const int workers : {1, 3}) {
    Split& split = splits.emplace_back(Split{{"compute", 5 + workers}});
    if (shape.ranks > 1) split["intra"] = workers;
    if (shape.nodes > 1) split.insert({{"send", workers}, {"keep", 1}});
  }
  std::vector<GpuAttentionLaunch> launches;
  for (const Split& split : splits) {
    launches.emplace_back(world, at, 7, 0);
    launches.back().enqueue(world, split);
    world.synchronize();
    EXPECT_TRUE(launches.back().is_right());
    EXPECT_TRUE(launches.back().has_the_bits_of(launches.front()));
  }
}

TEST_P(GpuAttention, ManyLaunchesInARowAreRight) {
  MK_NEEDS_GPU();
  World world = gpu_world(shape);
  AttentionCase at = gpu_case(shape, order, {1, 140, 2, 1, 64, DType::kBf16});
  at.form.mask = {MaskKind::kCausal};
  GpuAttentionLaunch first(world, at, 3, 0);
  GpuAttentionLaunch last(world, at, 3, 2);
  for (int i = 0; i < 50; ++i) (i % 2 == 0 ? first : last).enqueue(world);
  world.synchronize();
  EXPECT_TRUE(first.is_right());
  EXPECT_TRUE(last.is_right());
}

TEST(GpuAttentionBadInput, StridesThatTmaWouldNotTakeAreNamed) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  const AttentionCase at = gpu_case({1, 2}, SequenceOrder::kContiguous, {2, 20, 4, 2, 64, DType::kBf16});
  GpuAttentionLaunch launch(world, at, 1, 0);
  launch.args()[1].k.strides = {4096, 132};
  EXPECT_TRUE(refuses({"k of rank 1 has a row stride of 264 bytes", "multiple of 16"}, [&] { launch.enqueue(world); }));
  EXPECT_TRUE(runs_right(world, at, 1, 1));
}

TEST(GpuAttentionFault, ARankThatNeverStartsIsNamedAndANewWorldWorks) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 2}}) {
    const AttentionCase at = gpu_case(shape, SequenceOrder::kContiguous, {1, 200, 2, 1, 128, DType::kBf16});
    World world = gpu_world(shape, {.timeout_ms = 200});
    GpuAttentionLaunch launch(world, at, 3, 0);
    world.state().device().synchronize();
    launch.enqueue_without(world, 1);
    EXPECT_TRUE(throws(ErrorCode::kTimeout, {"launch 1"}, [&] { world.synchronize(); }));
    World another = gpu_world(shape);
    EXPECT_TRUE(runs_right(another, at, 2, 1));
  }
}

}  // namespace
}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/cuda/gpu_ring_attention_backward_test.cc — ring_attention_backward on a GPU: every gradient is right, whatever
// the mask.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "ops/attention/ring_attention_backward_targets.h"
#include "tests/attention/attention_backward_data.h"
#include "tests/attention/attention_errors.h"
#include "tests/cuda/gpu_launch.h"
#include "tests/cuda/gpu_tensors.h"
#include "tests/support/each_rank.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

// Gradients of keys, of values and of queries with their gaps, and of sinks.
struct StridedGradients {
  StridedHeads dq, dk, dv;
  std::vector<float> dsink;
};

// A launch's tensors on the GPU; gradients are NaN before.
class GpuGradients {
 public:
  GpuGradients(World& world, const AttentionCase& at, uint64_t seed, uint64_t launch, Outputs outputs = Outputs::kDrawn)
      : at_(at), outputs_(outputs), data_(at, seed, launch, outputs), tensors_(world.state().device()) {
    const bool has_sinks = at.sinks == Sinks::kGiven;
    const float* const sinks = has_sinks ? tensors_.keep(data_.sinks()) : nullptr;
    for (int rank = 0; rank < world.size(); ++rank) {
      const HeadTensor q = tensors_.keep(placed(at, rank, 0, data_.q(rank)));
      lse_.push_back(tensors_.keep(data_.lse(rank)));
      args_.push_back({.q = q,
                       .k = tensors_.keep(placed(at, rank, 1, data_.k(rank))),
                       .v = tensors_.keep(placed(at, rank, 2, data_.v(rank))),
                       .o = tensors_.keep(placed(at, rank, 3, data_.o(rank))),
                       .dout = tensors_.keep(placed(at, rank, 4, data_.dout(rank))),
                       .lse = lse_.back(),
                       .sink = sinks,
                       .dq = tensors_.keep(poisoned(at, rank, 5, data_.q(rank))),
                       .dk = tensors_.keep(poisoned(at, rank, 6, data_.k(rank))),
                       .dv = tensors_.keep(poisoned(at, rank, 7, data_.v(rank))),
                       .dsink = has_sinks ? static_cast<float*>(tensors_.poison(4 * q.heads)) : nullptr,
                       .stream = world.rank_stream(rank)});
    }
  }

  // If o and lse are of the forward pass, its launch goes first.
  void enqueue(World& world, const Split& split = {}) {
    if (outputs_ == Outputs::kOfTheForwardPass) {
      std::vector<RingAttentionArgs> forward;
      for (size_t rank = 0; rank < args_.size(); ++rank) {
        const RingAttentionBackwardArgs& own = args_[rank];
        forward.push_back({.q = own.q,
                           .k = own.k,
                           .v = own.v,
                           .o = own.o,
                           .lse = lse_[rank],
                           .sink = own.sink,
                           .stream = own.stream});
      }
      ring_attention(world, forward, at_.options());
    }
    ring_attention_backward(world, args_, at_.options(split));
  }
  void enqueue_without(World& world, int missing) {
    runtime::WorldState& state = world.state();
    const attention::Problem problem = attention::problem_of(state.shape(), state.members(), args_, at_.options());
    const runtime::Plan& plan = attention::backward_plan_for(state, problem, {});
    for (int rank = 0; rank < world.size(); ++rank) {
      if (rank != missing) attention::launch_backward_rank(state, plan, rank, problem, args_[rank]);
    }
  }

  StridedGradients gradients(int rank) const {
    const RingAttentionBackwardArgs& own = args_[rank];
    return {tensors_.now(own.dq, poisoned(at_, rank, 5, data_.q(rank))),
            tensors_.now(own.dk, poisoned(at_, rank, 6, data_.k(rank))),
            tensors_.now(own.dv, poisoned(at_, rank, 7, data_.v(rank))),
            own.dsink == nullptr ? std::vector<float>() : tensors_.floats(own.dsink, own.q.heads)};
  }
  testing::AssertionResult is_right() const {
    return each_rank_is_right(static_cast<int>(args_.size()), [&](int rank) -> testing::AssertionResult {
      const StridedGradients seen = gradients(rank);
      if (!seen.dq.gaps_are_untouched() || !seen.dk.gaps_are_untouched() || !seen.dv.gaps_are_untouched()) {
        return testing::AssertionFailure() << "rank " << rank << " wrote into gaps";
      }
      return data_.is_right(rank, {values_in(seen.dq, data_.q(rank)), values_in(seen.dk, data_.k(rank)),
                                   values_in(seen.dv, data_.v(rank)), seen.dsink});
    });
  }
  // Of both passes, if o is of the forward pass.
  testing::AssertionResult errors_are_small() const {
    std::vector<AttentionResults> ranks;
    for (int rank = 0; rank < static_cast<int>(args_.size()); ++rank) {
      const StridedGradients seen = gradients(rank);
      const StridedHeads o = tensors_.now(args_[rank].o, placed(at_, rank, 3, data_.o(rank)));
      ranks.push_back({values_in(o, data_.q(rank)), values_in(seen.dq, data_.q(rank)),
                       values_in(seen.dk, data_.k(rank)), values_in(seen.dv, data_.k(rank))});
    }
    return errors_are_at_most_twice_those_of_steps(at_, data_, ranks);
  }
  bool has_the_bits_of(const GpuGradients& other) const {
    for (int rank = 0; rank < static_cast<int>(args_.size()); ++rank) {
      const StridedGradients own = gradients(rank);
      const StridedGradients theirs = other.gradients(rank);
      if (own.dq.bytes != theirs.dq.bytes || own.dk.bytes != theirs.dk.bytes || own.dv.bytes != theirs.dv.bytes ||
          !have_same_bits(own.dsink, theirs.dsink)) {
        return false;
      }
    }
    return true;
  }

 private:
  AttentionCase at_;
  Outputs outputs_;
  AttentionBackwardData data_;
  GpuTensors tensors_;
  std::vector<float*> lse_;
  std::vector<RingAttentionBackwardArgs> args_;
};

testing::AssertionResult differentiates_on_gpu(World& world, const AttentionCase& at, int launches, uint64_t seed,
                                               Outputs outputs = Outputs::kDrawn) {
  std::vector<GpuGradients> queued;
  const int step = outputs == Outputs::kDrawn ? 1 : 2;
  for (int launch = 0; launch < launches; ++launch) queued.emplace_back(world, at, seed, launch * step, outputs);
  for (GpuGradients& launch : queued) launch.enqueue(world);
  world.synchronize();
  for (int launch = 0; launch < launches; ++launch) {
    if (const auto right = queued[launch].is_right(); !right) {
      return testing::AssertionFailure() << name_of(at.form) << ", " << at.shape.rows << " rows, dim " << at.shape.dim
                                         << ", launch " << launch << ": " << right.message();
    }
  }
  return testing::AssertionSuccess();
}

// Rows of one, of a prime, one past a block or a tile, and of several of both; key heads for each query head and for
// several.  The host differentiates every query in double: small shapes are for large worlds.
constexpr RingAttentionShape kShapes[] = {{1, 1, 1, 1, 64, DType::kBf16},    {2, 37, 4, 1, 128, DType::kFp16},
                                          {1, 129, 2, 2, 64, DType::kFp16},  {1, 65, 2, 1, 128, DType::kBf16},
                                          {1, 67, 2, 1, 256, DType::kBf16},  {1, 300, 4, 2, 64, DType::kBf16},
                                          {1, 259, 4, 2, 128, DType::kBf16}, {2, 131, 4, 2, 256, DType::kFp16}};
constexpr size_t kSmallShapes = 5;

class GpuAttentionBackward : public testing::TestWithParam<std::tuple<WorldShape, SequenceOrder>> {
 protected:
  WorldShape shape = std::get<0>(GetParam());
  SequenceOrder order = std::get<1>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Worlds, GpuAttentionBackward,
                         testing::Combine(testing::Values(WorldShape{1, 1}, WorldShape{1, 2}, WorldShape{1, 5},
                                                          WorldShape{2, 1}, WorldShape{2, 2}, WorldShape{3, 2},
                                                          WorldShape{2, 8}),
                                          testing::Values(SequenceOrder::kContiguous, SequenceOrder::kZigzag)),
                         joined_names);

TEST_P(GpuAttentionBackward, IsRightWithEveryMask) {
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
    EXPECT_TRUE(differentiates_on_gpu(world, at, 2, seed_of(turn, mask)));
  }
}

// Sequences of one query, of less than a tile, and of several; they end inside tiles and pieces.
TEST_P(GpuAttentionBackward, PackedSequencesAreRight) {
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
      EXPECT_TRUE(differentiates_on_gpu(world, at, 2, seed_of(turn, packing)));
    }
  }
}

// Views of larger tensors; sequences of a batch and packed ones.
TEST_P(GpuAttentionBackward, TensorsWithGapsAreRight) {
  MK_NEEDS_GPU();
  World world = gpu_world(shape);
  constexpr RingAttentionShape kWithGaps[] = {
      {2, 37, 4, 2, 128, DType::kFp16}, {2, 65, 4, 2, 64, DType::kBf16}, {1, 40, 2, 1, 256, DType::kBf16}};
  int turn = shape.size();
  for (const HeadsLie lie : kHeadsLies) {
    AttentionCase at = gpu_case(shape, order, kWithGaps[++turn % std::size(kWithGaps)]);
    at.form.mask.kind = turn % 4 < 2 ? MaskKind::kFull : MaskKind::kCausal;
    at.form.packing = turn % 2;
    if (at.form.packing != 0) at.shape.batch = 1;
    at.lie = lie;
    EXPECT_TRUE(differentiates_on_gpu(world, at, 2, seed_of(turn, 1))) << name_of(lie);
  }
}

TEST_P(GpuAttentionBackward, IsRightBehindTheForwardPass) {
  MK_NEEDS_GPU();
  World world = gpu_world(shape);
  AttentionCase at = gpu_case(shape, order, {1, 70, 4, 2, 128, DType::kBf16});
  at.form.mask = {MaskKind::kCausal};
  at.sinks = Sinks::kGiven;
  EXPECT_TRUE(differentiates_on_gpu(world, at, 3, 5, Outputs::kOfTheForwardPass));
}

// Every shape with both kinds of masks.
TEST(GpuAttentionBackwardShapes, AreRight) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 1}, WorldShape{2, 2}}) {
    World world = gpu_world(shape);
    for (const RingAttentionShape& one : kShapes) {
      for (const MaskKind mask : {MaskKind::kFull, MaskKind::kCausal}) {
        AttentionCase at = gpu_case(shape, SequenceOrder::kContiguous, one);
        at.form.mask.kind = mask;
        EXPECT_TRUE(differentiates_on_gpu(world, at, 2, seed_of(one.rows, one.dim)));
      }
    }
  }
}

TEST(GpuAttentionErrors, AreAtMostTwiceThoseOfSteps) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 1}, WorldShape{2, 2}}) {
    World world = gpu_world(shape);
    for (const int dim : {64, 128, 256}) {
      for (const DType dtype : {DType::kBf16, DType::kFp16}) {
        AttentionCase at = gpu_case(shape, SequenceOrder::kZigzag, {1, 320 / shape.size(), 2, 1, dim, dtype});
        at.form.mask.kind = dim == 128 ? MaskKind::kFull : MaskKind::kCausal;
        GpuGradients launch(world, at, 3, 0, Outputs::kOfTheForwardPass);
        launch.enqueue(world);
        world.synchronize();
        EXPECT_TRUE(launch.errors_are_small()) << dim << " " << mk::name_of(dtype);
      }
    }
  }
}

TEST_P(GpuAttentionBackward, EveryRunAndEverySplitGivesTheSameBits) {
  MK_NEEDS_GPU();
  if (shape.size() > 6) GTEST_SKIP() << "eight ranks leave few splits";
  World world = gpu_world(shape);
  AttentionCase at = gpu_case(shape, order, {1, 200, 4, 2, 128, DType::kBf16});
  at.form.mask = {MaskKind::kCausal};
  at.sinks = Sinks::kGiven;
  std::vector<Split> splits = {{}, {}};
  for (const int workers : {1, 3}) {
    Split& split = splits.emplace_back(Split{{"compute", 5 + workers}});
    if (shape.size() > 1) split["collect"] = 2 * workers;
    if (shape.ranks > 1) split["intra"] = workers;
    if (shape.nodes > 1) split.insert({{"send", workers}, {"keep", 1}});
  }
  std::vector<GpuGradients> launches;
  for (const Split& split : splits) {
    launches.emplace_back(world, at, 7, 0);
    launches.back().enqueue(world, split);
    world.synchronize();
    EXPECT_TRUE(launches.back().is_right());
    EXPECT_TRUE(launches.back().has_the_bits_of(launches.front()));
  }
}

TEST_P(GpuAttentionBackward, ManyLaunchesInARowAreRight) {
  MK_NEEDS_GPU();
  World world = gpu_world(shape);
  AttentionCase at = gpu_case(shape, order, {1, 140, 2, 1, 64, DType::kBf16});
  at.form.mask = {MaskKind::kCausal};
  GpuGradients first(world, at, 3, 0);
  GpuGradients last(world, at, 3, 2);
  for (int i = 0; i < 50; ++i) (i % 2 == 0 ? first : last).enqueue(world);
  world.synchronize();
  EXPECT_TRUE(first.is_right());
  EXPECT_TRUE(last.is_right());
}

TEST(GpuAttentionBackwardFault, ARankThatNeverStartsIsNamedAndANewWorldWorks) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 2}, WorldShape{2, 2}}) {
    const AttentionCase at = gpu_case(shape, SequenceOrder::kContiguous, {1, 200, 2, 1, 128, DType::kBf16});
    World world = gpu_world(shape, {.timeout_ms = 200});
    GpuGradients launch(world, at, 3, 0);
    world.state().device().synchronize();
    launch.enqueue_without(world, 1);
    EXPECT_TRUE(throws(ErrorCode::kTimeout, {"launch 1"}, [&] { world.synchronize(); }));
    World another = gpu_world(shape);
    EXPECT_TRUE(differentiates_on_gpu(another, at, 2, 1));
  }
}

}  // namespace
}  // namespace mk::test

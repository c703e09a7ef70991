// SPDX-License-Identifier: MIT
// tests/support/op_launch.cc — what launches of all operators share.
#include "tests/support/op_launch.h"

#include <algorithm>
#include <cmath>

namespace mk::test {
namespace {

std::vector<Tensor> views_of(std::vector<Matrix>& matrices) {
  std::vector<Tensor> views;
  for (Matrix& matrix : matrices) views.push_back(matrix.view());
  return views;
}

bool is_poisoned(const Matrix& matrix) {
  const std::vector<float> values = matrix.values();
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isnan(x); });
}

template <class AnyWorld>
testing::AssertionResult queue_and_check(AnyWorld& world, int count, const std::function<OpLaunch(int)>& make,
                                         const OpSettings& settings) {
  std::vector<OpLaunch> launches;
  for (int i = 0; i < count; ++i) {
    launches.push_back(make(i));
    enqueue(world, launches.back(), settings);
  }
  finish(world);
  for (int i = 0; i < count; ++i) {
    if (auto right = launches[i].is_right(); !right) {
      return right << " (" << name_of(shape_of(world)) << ", launch " << i + 1 << ")";
    }
  }
  return testing::AssertionSuccess();
}

template <class AnyWorld>
testing::AssertionResult run_and_check(AnyWorld& world, Op op, const Shape& shape, const RunOptions& options) {
  const auto make = [&](int i) { return launch_number(i, op, shape_of(world), shape, options); };
  return queue_and_check(world, options.launches, make, {options.split, options.tile}) << ", " << name_of(shape);
}

}  // namespace

OpLaunch::OpLaunch(Op op, const WorldShape& world, const OpCase& at, uint64_t seed, Data data)
    : op_(op), data_{world, at, data, {}} {
  std::mt19937_64 random(seed);
  for (int rank = 0; rank < world.size(); ++rank) {
    data_.ranks.push_back(row_of(op).make(world, at, data, random));
    for (Matrix& out : data_.ranks.back().out) out.poison();
  }
}

std::vector<OpArgs> OpLaunch::args() {
  std::vector<OpArgs> args;
  for (RankData& own : data_.ranks) args.push_back({views_of(own.in), views_of(own.out), data_.at.form, nullptr});
  return args;
}

testing::AssertionResult OpLaunch::is_right() const { return row_of(op_).judge(data_); }

bool OpLaunch::is_untouched(int rank) const {
  const std::vector<Matrix>& out = data_.ranks[rank].out;
  return std::all_of(out.begin(), out.end(), is_poisoned);
}

bool OpLaunch::has_the_same_bits(const OpLaunch& other) const {
  const auto same_bytes = [](const Matrix& mine, const Matrix& theirs) { return mine.bytes() == theirs.bytes(); };
  return std::equal(data_.ranks.begin(), data_.ranks.end(), other.data_.ranks.begin(), other.data_.ranks.end(),
                    [&](const RankData& mine, const RankData& theirs) {
                      return std::equal(mine.out.begin(), mine.out.end(), theirs.out.begin(), theirs.out.end(),
                                        same_bytes);
                    });
}

void call(Op op, World& world, std::span<const OpArgs> args, const OpSettings& settings) {
  row_of(op).call(world, args, settings);
}

void enqueue(World& world, OpLaunch& launch, const OpSettings& settings) {
  const std::vector<OpArgs> args = launch.args();
  call(launch.op(), world, std::span(args).subspan(world.first_rank(), world.num_ranks()), settings);
}

void enqueue(runtime::WorldState& world, OpLaunch& launch, const OpSettings& settings) {
  world.check_usable();
  const runtime::Plan& plan = plan_of(world, launch, settings);
  for (int rank = 0; rank < world.shape().size(); ++rank) launch_rank(world, plan, launch, rank);
}

const runtime::Plan& plan_of(runtime::WorldState& world, OpLaunch& launch, const OpSettings& settings) {
  return row_of(launch.op()).plan(world, launch.args(), settings);
}

void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, OpLaunch& launch, int rank) {
  row_of(launch.op()).launch_rank(world, plan, rank, launch.args()[rank]);
}

void finish(World& world) { world.synchronize(); }

void finish(runtime::WorldState& world) {
  world.device().synchronize();
  world.check_faults();
}

WorldShape shape_of(const World& world) { return {world.nodes(), world.ranks_per_node()}; }

WorldShape shape_of(const runtime::WorldState& world) { return world.shape(); }

OpLaunch launch_number(int i, Op op, const WorldShape& world, const Shape& shape, const RunOptions& options) {
  const GemmForm alternating{i % 2 == 0 ? BOrder::kKN : BOrder::kNK};
  const OpCase at{shape, options.dtype, options.form.value_or(alternating)};
  return OpLaunch(op, world, at, seed_of(options.seed, i), options.data);
}

testing::AssertionResult all_run_right(World& world, int count, const std::function<OpLaunch(int)>& make,
                                       const OpSettings& settings) {
  return queue_and_check(world, count, make, settings);
}

testing::AssertionResult runs_right(World& world, Op op, const Shape& shape, const RunOptions& options) {
  return run_and_check(world, op, shape, options);
}

testing::AssertionResult runs_right(runtime::WorldState& world, Op op, const Shape& shape, const RunOptions& options) {
  return run_and_check(world, op, shape, options);
}

}  // namespace mk::test

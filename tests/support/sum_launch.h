// SPDX-License-Identifier: MIT
// tests/support/sum_launch.h — one launch of an operator that sums products over ranks, and its check.
//
// The reference follows the arithmetic that gemm_args.h promises, with roundings of its own
// (tests/support/rounding.h): partial results in double, rounded; node sums in float, in the order of the
// ranks, rounded where they leave their node (in one shot everywhere); node after node.  Exact data make every partial
// result exact before it is rounded, so the outputs must have those very bits.  For uniform data the reference is the
// exact sum, and the bound is derived in `tolerance`.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mkernel/mkernel.h"
#include "tests/support/launching.h"

namespace mk::test {

enum class SumOp { kGemmRs, kGemmAr, kGemmArOneShot };
inline constexpr std::array<SumOp, 3> kSumOps = {SumOp::kGemmRs, SumOp::kGemmAr, SumOp::kGemmArOneShot};

std::string name_of(SumOp op);

// Every rank multiplies all rows, so there are fewer and smaller ones than in kShapes.
inline constexpr std::array<Shape, 6> kSumShapes = {
    {{1, 1, 1}, {7, 5, 3}, {32, 64, 4}, {33, 65, 7}, {2, 131, 35}, {67, 7, 1}}};

// One worker in each role the operator has in this world.
Split smallest_split(SumOp op, const WorldShape& world);

struct SumCase {
  SumOp op = SumOp::kGemmRs;
  Shape shape = {};  // shard_rows is M / W
  DType dtype = DType::kFp32;
  BOrder b_order = BOrder::kKN;
  int64_t more_rows = 0;  // in one shot the world need not divide M
};

class SumLaunch {
 public:
  SumLaunch(const WorldShape& world, const SumCase& at, uint64_t seed, Data data = Data::kExact);

  // One per rank; outputs are poisoned.
  std::vector<GemmArgs> args();
  SumOp op() const { return case_.op; }

  // Names the first element that is wrong.
  testing::AssertionResult is_right() const;

  // True if no element of the rank's output was written.
  bool is_untouched(int rank) const;

  bool has_the_same_bits(const SumLaunch& other) const;

 private:
  int64_t m() const { return case_.shape.shard_rows * world_.size() + case_.more_rows; }
  bool has_all_rows() const { return case_.op != SumOp::kGemmRs; }
  double expected(const double* of_ranks, int owner) const;
  testing::AssertionResult row_is_right(int64_t row, const std::vector<std::vector<float>>& a,
                                        const std::vector<std::vector<float>>& b) const;
  testing::AssertionResult copies_are_equal() const;

  WorldShape world_;
  SumCase case_;
  Data data_;
  std::vector<Matrix> a_;  // of each rank
  std::vector<Matrix> b_;
  std::vector<Matrix> c_;
};

// The operator's public call.
void call(SumOp op, World& world, std::span<const GemmArgs> args, const Split& split = {});

void enqueue(World& world, SumLaunch& launch, Split split = {});
void enqueue(runtime::WorldState& world, SumLaunch& launch, Split split = {});

// What the two are made of, for tests that launch some of the ranks.
const runtime::Plan& plan_of(runtime::WorldState& world, SumLaunch& launch, Split split = {});
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, SumLaunch& launch, int rank);
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, SumOp op, int rank, const GemmArgs& args);

struct SumOptions {
  DType dtype = DType::kFp32;
  int launches = 5;
  uint64_t seed = 1;
  Split split = {};
  Data data = Data::kExact;
};

// Queues the launches back to back, waits once, and checks every one.  B lies now in one order, now in the
// other.
template <class AnyWorld>
testing::AssertionResult runs_right(AnyWorld& world, SumOp op, const Shape& shape, const SumOptions& options = {}) {
  return all_run_right<SumLaunch>(world, options.launches, options.split,
                                  [&](int i) {
                                    const SumCase at{op, shape, options.dtype, i % 2 == 0 ? BOrder::kKN : BOrder::kNK};
                                    return SumLaunch(shape_of(world), at, seed_of(options.seed, i), options.data);
                                  })
         << ", " << name_of(shape);
}

}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/support/ag_gemm_launch.cc — inputs, the reference and the bound.
#include "tests/support/ag_gemm_launch.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "ops/ag_gemm/ag_gemm_problem.h"
#include "ops/ag_gemm/ag_gemm_targets.h"
#include "tests/support/rounding.h"

namespace mk::test {
namespace {

// A dot product of k terms in fp32, products rounded or not, is off by at most
// k·u / (1 - k·u) · Σ|a||b| with u = 2^-24; one more term covers the reference's own, far smaller,
// error.  Rounding that to the output adds half an ulp there.
double tolerance(DType dtype, int64_t k, double exact, double sum_of_magnitudes) {
  const double ku = static_cast<double>(k + 1) * std::ldexp(1.0, -24);
  const double accumulated = ku / (1 - ku) * sum_of_magnitudes;
  const double rounded = dtype == DType::kFp32 ? 0 : format_of(dtype).ulp(std::abs(exact) + accumulated) / 2;
  return accumulated + rounded;
}

}  // namespace

AgGemmLaunch::AgGemmLaunch(const WorldShape& world, const Shape& shape, DType dtype, uint64_t seed, Data data)
    : world_(world), shape_(shape), dtype_(dtype), data_(data) {
  std::mt19937_64 random(seed);
  for (int rank = 0; rank < world.size(); ++rank) {
    fill(a_.emplace_back(dtype, shape.shard_rows, shape.k), data, random);
    fill(b_.emplace_back(dtype, shape.k, shape.n), data, random);
    c_.emplace_back(dtype, shape.shard_rows * world.size(), shape.n).poison();
  }
}

std::vector<AgGemmArgs> AgGemmLaunch::args() {
  std::vector<AgGemmArgs> args;
  for (int rank = 0; rank < world_.size(); ++rank) {
    args.push_back({a_[rank].view(), b_[rank].view(), c_[rank].view()});
  }
  return args;
}

// `a` and `b` hold one row of A and all of B in float.
testing::AssertionResult AgGemmLaunch::row_is_right(int rank, int64_t row, const float* a,
                                                    const std::vector<float>& b) const {
  std::vector<double> sums(shape_.n);
  std::vector<double> magnitudes(shape_.n);
  for (int64_t inner = 0; inner < shape_.k; ++inner) {
    const float* b_row = b.data() + inner * shape_.n;
    for (int64_t col = 0; col < shape_.n; ++col) {
      const double product = static_cast<double>(a[inner]) * b_row[col];
      sums[col] += product;
      magnitudes[col] += std::abs(product);
    }
  }
  for (int64_t col = 0; col < shape_.n; ++col) {
    const double actual = c_[rank].at(row, col);
    const double exact = data_ == Data::kExact ? round_to(format_of(dtype_), sums[col]) : sums[col];
    const double allowed = data_ == Data::kExact ? 0 : tolerance(dtype_, shape_.k, exact, magnitudes[col]);
    // Written so that a NaN fails.  A sum that starts at +0 never becomes -0.
    if (std::abs(actual - exact) <= allowed && !(actual == 0 && std::signbit(actual) && allowed == 0)) continue;
    return testing::AssertionFailure() << name_of(dtype_) << " c[" << row << ", " << col << "] of rank " << rank
                                       << " is " << actual << ", not " << exact << " within " << allowed;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult AgGemmLaunch::is_right() const {
  std::vector<float> a;  // of all ranks, shard after shard
  for (const Matrix& shard : a_) {
    const std::vector<float> values = shard.values();
    a.insert(a.end(), values.begin(), values.end());
  }
  for (int rank = 0; rank < world_.size(); ++rank) {
    const std::vector<float> b = b_[rank].values();
    for (int64_t row = 0; row < c_[rank].rows(); ++row) {
      if (auto right = row_is_right(rank, row, a.data() + row * shape_.k, b); !right) return right;
    }
  }
  return testing::AssertionSuccess();
}

bool AgGemmLaunch::is_untouched(int rank) const {
  const std::vector<float> values = c_[rank].values();
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isnan(x); });
}

void enqueue(World& world, AgGemmLaunch& launch, const Split& split) { ag_gemm(world, launch.args(), {split}); }

void enqueue(runtime::WorldState& world, AgGemmLaunch& launch, const Split& split) {
  const std::vector<AgGemmArgs> args = launch.args();
  world.check_usable();
  const runtime::Plan& plan = ag_gemm_op::plan_for(world, ag_gemm_op::problem_of(world.shape(), args), {.split = split});
  for (int rank = 0; rank < world.shape().size(); ++rank) ag_gemm_op::launch_rank(world, plan, rank, args[rank]);
}

}  // namespace mk::test

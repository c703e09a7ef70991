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

constexpr double kUnit = 0x1p-24;  // of fp32: what one rounding changes, relatively

double activate(Activation activation, double x) {
  if (activation == Activation::kGelu) return x * (0.5 + 0.5 * std::erf(x / std::sqrt(2.0)));
  if (activation == Activation::kSilu) return x / (1 + std::exp(-x));
  return x;
}

// How far f in fp32 may be from f itself, at x.
//   GELU: t = x/√2 has two roundings, which move erf(t) by at most max(t·erf'(t)) = 0.49 · 2u; erf adds two ulps of
//   a number below 1, that is 2u; 1 + erf rounds a number below 2, u.  So 1 + erf is off by 4u, of which x
//   takes one half, and two products round what is below |x|: 2u more.
//   SiLU: a fast exp(-x) is off by 2 + 1.173·|x| ulps of 2u each; the sum and the quotient round once.  What
//   overflows it makes a zero of a number below 2^-118.
double activation_error(Activation activation, double x) {
  const double size = std::abs(x);
  if (activation == Activation::kGelu) return 4 * kUnit * size;
  if (activation == Activation::kSilu) {
    return (2 * (2 + 1.173 * size) + 2) * kUnit * std::abs(activate(activation, x)) + 0x1p-118;
  }
  return 0;
}

// A dot product of k terms in fp32 and a bias, products rounded or not, is off by at most
// (k+1)·u / (1 - (k+1)·u) · (Σ|a||b| + |bias|); one more term covers the reference's own, far smaller,
// error.  No activation is steeper than 1.13 (GELU, at √2), so f moves by no more than that; a little is added
// for f's own error at the moved place.  Rounding that to the output adds half an ulp there.
double tolerance(DType dtype, Activation activation, int64_t k, double sum, double sum_of_magnitudes) {
  const double ku = static_cast<double>(k + 2) * kUnit;
  const double accumulated = ku / (1 - ku) * sum_of_magnitudes;
  const double slope = activation == Activation::kNone ? 1 : 1.13;
  const double before = slope * accumulated + activation_error(activation, std::abs(sum) + accumulated) +
                        activation_error(activation, -std::abs(sum) - accumulated);
  const double exact = activate(activation, sum);
  const double rounded = dtype == DType::kFp32 ? 0 : format_of(dtype).ulp(std::abs(exact) + before) / 2;
  return before + rounded;
}

// All elements of a [n, k] as [k, n].
std::vector<float> transposed(const std::vector<float>& values, int64_t n, int64_t k) {
  std::vector<float> result(values.size());
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t col = 0; col < k; ++col) result[col * n + row] = values[row * k + col];
  }
  return result;
}

}  // namespace

std::string name_of(const GemmForm& form) {
  std::string name = form.b_order == BOrder::kKN ? "KN" : "NK";
  if (form.has_bias) name += "_bias";
  if (form.activation != Activation::kNone) name += std::string("_") + name_of(form.activation);
  return name;
}

AgGemmLaunch::AgGemmLaunch(const WorldShape& world, const Shape& shape, DType dtype, uint64_t seed, Data data,
                           const GemmForm& form)
    : world_(world), shape_(shape), dtype_(dtype), data_(data), form_(form) {
  std::mt19937_64 random(seed);
  const bool is_kn = form.b_order == BOrder::kKN;
  for (int rank = 0; rank < world.size(); ++rank) {
    fill(a_.emplace_back(dtype, shape.shard_rows, shape.k), data, random);
    fill(b_.emplace_back(dtype, is_kn ? shape.k : shape.n, is_kn ? shape.n : shape.k), data, random);
    if (form.has_bias) fill(bias_.emplace_back(dtype, 1, shape.n), data, random);
    c_.emplace_back(dtype, shape.shard_rows * world.size(), shape.n).poison();
  }
}

std::vector<AgGemmArgs> AgGemmLaunch::args() {
  std::vector<AgGemmArgs> args;
  for (int rank = 0; rank < world_.size(); ++rank) {
    args.push_back({.a = a_[rank].view(),
                    .b = b_[rank].view(),
                    .c = c_[rank].view(),
                    .bias = form_.has_bias ? bias_[rank].view() : Tensor{},
                    .b_order = form_.b_order,
                    .activation = form_.activation});
  }
  return args;
}

// `a` and `b` hold one row of A and all of B, as [k, n], in float.
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
    const double bias = form_.has_bias ? bias_[rank].at(0, col) : 0;
    const double sum = sums[col] + bias;
    const double exact = is_exact() ? round_to(format_of(dtype_), sum) : activate(form_.activation, sum);
    const double allowed =
        is_exact() ? 0 : tolerance(dtype_, form_.activation, shape_.k, sum, magnitudes[col] + std::abs(bias));
    // Written so that a NaN fails.  A sum that starts at +0 never becomes -0.
    if (std::abs(actual - exact) <= allowed && !(actual == 0 && std::signbit(actual) && allowed == 0)) continue;
    return testing::AssertionFailure() << mk::name_of(dtype_) << " " << name_of(form_) << " c[" << row << ", " << col
                                       << "] of rank " << rank << " is " << actual << ", not " << exact << " within "
                                       << allowed;
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
    std::vector<float> b = b_[rank].values();
    if (form_.b_order == BOrder::kNK) b = transposed(b, shape_.n, shape_.k);
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
  const runtime::Plan& plan =
      ag_gemm_op::plan_for(world, ag_gemm_op::problem_of(world.shape(), world.members(), args), {.split = split});
  for (int rank = 0; rank < world.shape().size(); ++rank) ag_gemm_op::launch_rank(world, plan, rank, args[rank]);
}

}  // namespace mk::test

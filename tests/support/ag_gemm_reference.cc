// SPDX-License-Identifier: MIT
// tests/support/ag_gemm_reference.cc — the reference and the bound.
#include "tests/support/ag_gemm_reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

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

// Sums of one row of A with all of B, as [k, n]; with magnitudes, where they are asked for.
void multiply_row(const float* a, const std::vector<float>& b, std::vector<double>& sums,
                  std::vector<double>* magnitudes) {
  const size_t n = sums.size();
  std::fill(sums.begin(), sums.end(), 0);
  for (size_t inner = 0; inner < b.size() / n; ++inner) {
    const double left = a[inner];
    const float* const b_row = b.data() + inner * n;
    for (size_t col = 0; col < n; ++col) sums[col] += left * b_row[col];
  }
  if (magnitudes == nullptr) return;
  std::fill(magnitudes->begin(), magnitudes->end(), 0);
  for (size_t inner = 0; inner < b.size() / n; ++inner) {
    for (size_t col = 0; col < n; ++col) (*magnitudes)[col] += std::abs(double{a[inner]} * b[inner * n + col]);
  }
}

// `a` is of all ranks, shard after shard.
testing::AssertionResult rank_is_right(const LaunchData& launch, int rank, const std::vector<float>& a) {
  const auto& [shape, dtype, form, more_rows] = launch.at;
  const RankData& own = launch.ranks[rank];
  const bool is_exact = launch.data == Data::kExact && form.activation == Activation::kNone;
  const std::vector<float> b = values_of_b(own.in[1], launch.at);
  const std::vector<float> bias = form.has_bias ? own.in[2].values() : std::vector<float>(shape.n);
  const std::vector<float> c = own.out[0].values();
  const RoundedWholes rounded(format_of(dtype), 16 * shape.k + 4);
  std::vector<double> sums(shape.n), magnitudes(shape.n);
  for (int64_t row = 0; row < own.out[0].rows(); ++row) {
    multiply_row(a.data() + row * shape.k, b, sums, is_exact ? nullptr : &magnitudes);
    for (int64_t col = 0; col < shape.n; ++col) {
      const double actual = c[row * shape.n + col];
      const double sum = sums[col] + bias[col];
      const double right = is_exact ? rounded(sum) : activate(form.activation, sum);
      const double allowed =
          is_exact ? 0 : tolerance(dtype, form.activation, shape.k, sum, magnitudes[col] + std::abs(bias[col]));
      // Written so that a NaN fails.  A sum that starts at +0 never becomes -0.
      if (std::abs(actual - right) <= allowed && !(actual == 0 && std::signbit(actual) && allowed == 0)) continue;
      return testing::AssertionFailure() << "ag_gemm " << mk::name_of(dtype) << " " << name_of(form) << " c[" << row
                                         << ", " << col << "] of rank " << rank << " is " << actual << ", not " << right
                                         << " within " << allowed;
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace

testing::AssertionResult judge_ag_gemm(const LaunchData& launch) {
  std::vector<float> a;
  for (const RankData& own : launch.ranks) {
    const std::vector<float> values = own.in[0].values();
    a.insert(a.end(), values.begin(), values.end());
  }
  for (int rank = 0; rank < launch.world.size(); ++rank) {
    if (auto right = rank_is_right(launch, rank, a); !right) return right;
  }
  return testing::AssertionSuccess();
}

}  // namespace mk::test

// SPDX-License-Identifier: MIT
// tests/support/sum_reference.cc — the reference and the bound.
#include "tests/support/sum_reference.h"

#include <cmath>
#include <vector>

#include "tests/support/rounding.h"

namespace mk::test {
namespace {

// Exact partial results p, each off by k·u / (1 - k·u) of its Σ|a||b| in fp32 (u = 2^-24; one more term
// covers the reference's own error), pass at most two roundings and R + N additions in fp32 before the
// last rounding: each changes what it touches by a factor of 1 + its unit at most, or by half the
// smallest subnormal.
double tolerance(const WorldShape& world, DType dtype, int64_t k, double exact, double products, double parts) {
  const FloatFormat format = format_of(dtype);
  const double ku = static_cast<double>(k + 1) * std::ldexp(1.0, -24);
  const double accumulated = ku / (1 - ku) * products;
  const int roundings = world.size() == 1 ? 0 : world.nodes == 1 ? 1 : 2;
  const int additions = world.size() == 1 ? 0 : world.ranks + world.nodes;
  const double growth =
      std::pow(1 + std::ldexp(1.0, -format.digits), roundings) * std::pow(1 + std::ldexp(1.0, -24), additions) - 1;
  const double tiny = 2.0 * roundings * world.size() * format.ulp(0) / 2;
  const double before = accumulated + growth * (parts + accumulated) + tiny;
  const double rounded = dtype == DType::kFp32 ? 0 : format.ulp(std::abs(exact) + before) / 2;
  return before + rounded;
}

class SumJudge {
 public:
  SumJudge(const LaunchData& launch, SumKeeper keeper, const char* name)
      : launch_(launch),
        keeper_(keeper),
        name_(name),
        rounded_(format_of(launch.at.dtype), launch.data == Data::kExact ? 16 * launch.at.shape.k : 0) {
    for (const RankData& own : launch.ranks) {
      a_.push_back(own.in[0].values());
      b_.push_back(values_of_b(own.in[1], launch.at));
    }
  }

  testing::AssertionResult all_are_right() const {
    for (int64_t row = 0; row < launch_.ranks[0].in[0].rows(); ++row) {
      if (auto right = row_is_right(row); !right) return right;
    }
    return has_all_rows() ? copies_are_equal() : testing::AssertionSuccess();
  }

 private:
  bool has_all_rows() const { return keeper_ != SumKeeper::kOwner; }
  const Matrix& c_of(int rank) const { return launch_.ranks[rank].out[0]; }

  // `parts` are the exact partial results, of rank after rank at a distance of n.
  double expected(const double* parts, int owner) const {
    const WorldShape& world = launch_.world;
    const FloatFormat format = format_of(launch_.at.dtype);
    if (world.size() == 1) return rounded_(parts[0]);
    float total = 0;
    for (int node = 0; node < world.nodes; ++node) {
      float sum = 0;
      for (int local = 0; local < world.ranks; ++local) {
        sum += static_cast<float>(rounded_(parts[world.rank_at(node, local) * launch_.at.shape.n]));
      }
      const bool kept = keeper_ == SumKeeper::kEach ? world.nodes == 1 : node == world.node_of(owner);
      total += kept ? sum : static_cast<float>(round_to(format, sum));
    }
    return round_to(format, total);
  }

  testing::AssertionResult row_is_right(int64_t row) const {
    const Shape& shape = launch_.at.shape;
    const int owner = keeper_ == SumKeeper::kEach ? 0 : static_cast<int>(row / shape.shard_rows);
    const Matrix& c = c_of(has_all_rows() ? 0 : owner);
    const int64_t c_row = has_all_rows() ? row : row % shape.shard_rows;
    const int64_t size = launch_.world.size();
    const bool is_exact = launch_.data == Data::kExact;
    std::vector<double> products(shape.n);         // magnitudes, for the bound
    std::vector<double> of_ranks(shape.n * size);  // [rank][col]
    for (int rank = 0; rank < size; ++rank) {
      double* const sums = of_ranks.data() + rank * shape.n;
      for (int64_t inner = 0; inner < shape.k; ++inner) {
        const double left = a_[rank][row * shape.k + inner];
        const float* const b_row = b_[rank].data() + inner * shape.n;
        for (int64_t col = 0; col < shape.n; ++col) sums[col] += left * b_row[col];
        for (int64_t col = 0; !is_exact && col < shape.n; ++col) products[col] += std::abs(left * b_row[col]);
      }
    }
    for (int64_t col = 0; col < shape.n; ++col) {
      const double actual = c.at(c_row, col);
      const double* const parts = of_ranks.data() + col;
      double sum = 0;
      double magnitudes = 0;  // of the parts
      for (int rank = 0; rank < size; ++rank) {
        sum += parts[rank * shape.n];
        magnitudes += std::abs(parts[rank * shape.n]);
      }
      const DType dtype = launch_.at.dtype;
      const double right = is_exact ? expected(parts, owner) : sum;
      const double allowed = is_exact ? 0 : tolerance(launch_.world, dtype, shape.k, sum, products[col], magnitudes);
      if (std::abs(actual - right) <= allowed) continue;  // written so that a NaN fails
      return testing::AssertionFailure() << name_ << " " << mk::name_of(dtype) << " " << name_of(launch_.at.form)
                                         << " c[" << c_row << ", " << col << "] of rank " << owner << " is " << actual
                                         << ", not " << right << " within " << allowed;
    }
    return testing::AssertionSuccess();
  }

  testing::AssertionResult copies_are_equal() const {
    for (int rank = 1; rank < launch_.world.size(); ++rank) {
      if (c_of(rank).bytes() == c_of(0).bytes()) continue;
      return testing::AssertionFailure() << name_ << ": ranks 0 and " << rank << " have different bits";
    }
    return testing::AssertionSuccess();
  }

  const LaunchData& launch_;
  const SumKeeper keeper_;
  const char* const name_;
  const RoundedWholes rounded_;            // partial results, if they are exact
  std::vector<std::vector<float>> a_, b_;  // of all ranks, B as [k, n]
};

}  // namespace

testing::AssertionResult judge_sum(const LaunchData& launch, SumKeeper keeper, const char* name) {
  return SumJudge(launch, keeper, name).all_are_right();
}

}  // namespace mk::test

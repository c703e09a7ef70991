// SPDX-License-Identifier: MIT
// tests/support/sum_launch.cc — inputs, the reference and the bound.
#include "tests/support/sum_launch.h"

#include <algorithm>
#include <cmath>

#include "ops/gemm_ar/gemm_ar_targets.h"
#include "ops/gemm_rs/gemm_rs_targets.h"
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

AllReducePath path_of(SumOp op) {
  return op == SumOp::kGemmArOneShot ? AllReducePath::kOneShot : AllReducePath::kTwoShot;
}

}  // namespace

std::string name_of(SumOp op) {
  switch (op) {
    case SumOp::kGemmRs: return "gemm_rs";
    case SumOp::kGemmAr: return "gemm_ar";
    case SumOp::kGemmArOneShot: return "gemm_ar_one_shot";
  }
  return "?";
}

Split smallest_split(SumOp op, const WorldShape& world) {
  const int one = world.size() > 1 ? 1 : 0;
  Split split{{"compute", 1}, {"reduce", one}};
  if (op == SumOp::kGemmAr) split["intra"] = one;
  return split;
}

SumLaunch::SumLaunch(const WorldShape& world, const SumCase& at, uint64_t seed, Data data)
    : world_(world), case_(at), data_(data) {
  std::mt19937_64 random(seed);
  const Shape& shape = at.shape;
  for (int rank = 0; rank < world.size(); ++rank) {
    fill(a_.emplace_back(at.dtype, m(), shape.k), data, random);
    const bool is_kn = at.b_order == BOrder::kKN;
    fill(b_.emplace_back(at.dtype, is_kn ? shape.k : shape.n, is_kn ? shape.n : shape.k), data, random);
    c_.emplace_back(at.dtype, has_all_rows() ? m() : shape.shard_rows, shape.n).poison();
  }
}

std::vector<GemmArgs> SumLaunch::args() {
  std::vector<GemmArgs> args;
  for (int rank = 0; rank < world_.size(); ++rank) {
    args.push_back({a_[rank].view(), b_[rank].view(), c_[rank].view(), case_.b_order});
  }
  return args;
}

// `of_ranks` are the exact partial results.  The owner's node keeps its sum unrounded, unless there is no
// owner and several nodes must agree.
double SumLaunch::expected(const double* of_ranks, int owner) const {
  const FloatFormat format = format_of(case_.dtype);
  if (world_.size() == 1) return round_to(format, of_ranks[0]);
  float total = 0;
  for (int node = 0; node < world_.nodes; ++node) {
    float sum = 0;
    for (int local = 0; local < world_.ranks; ++local) {
      sum += static_cast<float>(round_to(format, of_ranks[world_.rank_at(node, local)]));
    }
    const bool kept = case_.op == SumOp::kGemmArOneShot ? world_.nodes == 1 : node == world_.node_of(owner);
    total += kept ? sum : static_cast<float>(round_to(format, sum));
  }
  return round_to(format, total);
}

// `a` and `b` are those of all ranks in float, b as [k, n].
testing::AssertionResult SumLaunch::row_is_right(int64_t row, const std::vector<std::vector<float>>& a,
                                                 const std::vector<std::vector<float>>& b) const {
  const Shape& shape = case_.shape;
  const int owner = case_.op == SumOp::kGemmArOneShot ? 0 : static_cast<int>(row / shape.shard_rows);
  const Matrix& c = c_[has_all_rows() ? 0 : owner];
  const int64_t c_row = has_all_rows() ? row : row % shape.shard_rows;
  const int64_t size = world_.size();
  std::vector<double> products(shape.n);         // magnitudes
  std::vector<double> of_ranks(shape.n * size);  // [col][rank]
  for (int rank = 0; rank < size; ++rank) {
    for (int64_t inner = 0; inner < shape.k; ++inner) {
      const double left = a[rank][row * shape.k + inner];
      for (int64_t col = 0; col < shape.n; ++col) {
        const double product = left * b[rank][inner * shape.n + col];
        of_ranks[col * size + rank] += product;
        products[col] += std::abs(product);
      }
    }
  }
  for (int64_t col = 0; col < shape.n; ++col) {
    const double actual = c.at(c_row, col);
    const double* parts = of_ranks.data() + col * size;
    double sum = 0;
    double magnitudes = 0;  // of the parts
    for (int rank = 0; rank < size; ++rank) {
      sum += parts[rank];
      magnitudes += std::abs(parts[rank]);
    }
    const bool is_exact = data_ == Data::kExact;
    const double right = is_exact ? expected(parts, owner) : sum;
    const double allowed = is_exact ? 0 : tolerance(world_, case_.dtype, shape.k, sum, products[col], magnitudes);
    if (std::abs(actual - right) <= allowed) continue;  // written so that a NaN fails
    return testing::AssertionFailure() << name_of(case_.op) << " " << mk::name_of(case_.dtype) << " c[" << c_row << ", "
                                       << col << "] of rank " << owner << " is " << actual << ", not " << right
                                       << " within " << allowed;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult SumLaunch::copies_are_equal() const {
  for (int rank = 1; rank < world_.size(); ++rank) {
    if (c_[rank].bytes() == c_[0].bytes()) continue;
    return testing::AssertionFailure() << name_of(case_.op) << ": ranks 0 and " << rank << " have different bits";
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult SumLaunch::is_right() const {
  const Shape& shape = case_.shape;
  std::vector<std::vector<float>> a, b;
  for (int rank = 0; rank < world_.size(); ++rank) {
    a.push_back(a_[rank].values());
    b.push_back(b_[rank].values());
    if (case_.b_order == BOrder::kKN) continue;
    const std::vector<float> stored = b.back();
    for (int64_t inner = 0; inner < shape.k; ++inner) {
      for (int64_t col = 0; col < shape.n; ++col) b.back()[inner * shape.n + col] = stored[col * shape.k + inner];
    }
  }
  for (int64_t row = 0; row < m(); ++row) {
    if (auto right = row_is_right(row, a, b); !right) return right;
  }
  return has_all_rows() ? copies_are_equal() : testing::AssertionSuccess();
}

bool SumLaunch::is_untouched(int rank) const {
  const std::vector<float> values = c_[rank].values();
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isnan(x); });
}

bool SumLaunch::has_the_same_bits(const SumLaunch& other) const {
  return std::equal(c_.begin(), c_.end(), other.c_.begin(), other.c_.end(),
                    [](const Matrix& mine, const Matrix& theirs) { return mine.bytes() == theirs.bytes(); });
}

void call(SumOp op, World& world, std::span<const GemmArgs> args, const Split& split) {
  switch (op) {
    case SumOp::kGemmRs: return gemm_rs(world, args, {split});
    case SumOp::kGemmAr:
    case SumOp::kGemmArOneShot: return gemm_ar(world, args, {split, path_of(op)});
  }
}

void enqueue(World& world, SumLaunch& launch, Split split) { call(launch.op(), world, launch.args(), split); }

void enqueue(runtime::WorldState& world, SumLaunch& launch, Split split) {
  world.check_usable();
  const runtime::Plan& plan = plan_of(world, launch, split);
  for (int rank = 0; rank < world.shape().size(); ++rank) launch_rank(world, plan, launch, rank);
}

const runtime::Plan& plan_of(runtime::WorldState& world, SumLaunch& launch, Split split) {
  const dense::Problem problem = dense::problem_of(world.shape(), world.members(), launch.args());
  if (launch.op() == SumOp::kGemmRs) return gemm_rs_op::plan_for(world, problem, split);
  return gemm_ar_op::plan_for(world, problem, path_of(launch.op()), split);
}

void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, SumLaunch& launch, int rank) {
  launch_rank(world, plan, launch.op(), rank, launch.args()[rank]);
}

void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, SumOp op, int rank, const GemmArgs& args) {
  if (op == SumOp::kGemmRs) return gemm_rs_op::launch_rank(world, plan, rank, args);
  gemm_ar_op::launch_rank(world, plan, path_of(op), rank, args);
}

}  // namespace mk::test

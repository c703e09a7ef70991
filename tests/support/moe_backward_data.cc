// SPDX-License-Identifier: MIT
// tests/support/moe_backward_data.cc — see moe_backward_data.h.
#include "tests/support/moe_backward_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mk::test {

MoeGradients MoeGradients::filled(const MoeLayerData& data, int rank, float value) {
  const MoeLayerShape& shape = data.problem().shape;
  const int64_t tokens = data.routing().rank(rank).tokens;
  const auto some = [&](size_t size) { return std::vector<float>(size, value); };
  return {some(tokens * shape.hidden), some(tokens * shape.topk), some(data.w13(rank).size()),
          some(data.w2(rank).size())};
}

bool MoeGradients::is_all(float value) const {
  return std::ranges::all_of(std::vector{&dx, &scores, &dw13, &dw2}, [&](const std::vector<float>* one) {
    return std::ranges::all_of(*one, [&](float seen) { return seen == value; });
  });
}

MoeBackwardData::MoeBackwardData(const moe::LayerProblem& problem, Routing routing, uint64_t seed)
    : MoeBackwardData(MoeLayerData(problem, routing, seed), seed) {}

MoeBackwardData::MoeBackwardData(MoeLayerData layer, uint64_t seed) : layer_(std::move(layer)) {
  tools::RoutingRandom random(seed + 2);
  const moe::LayerProblem& problem = layer_.problem();
  const auto filled = [&](int64_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(tools::below(random, 33) - 16) / 8;
    return values;
  };
  for (int rank = 0; rank < problem.world.size(); ++rank) {
    dout_.push_back(filled(layer_.routing().rank(rank).tokens * problem.shape.hidden));
    kept_.push_back(filled(std::min(layer_.routing().rows_on(rank), problem.shape.max_rows) * 2 * problem.shape.inter));
    kept_.back().resize(problem.shape.max_rows * 2 * problem.shape.inter, std::numeric_limits<float>::quiet_NaN());
  }
}

struct MoeBackwardData::ExpertView {
  const float* w13;
  const float* w2;
  int64_t dw13;  // where its gradients begin
  int64_t dw2;
};

// What a row of an expert adds.  dx and the scores count only where the token is `rank`'s.
void MoeBackwardData::add_row(const ExpertView& expert, const MoeRow& row, const float* kept, int rank,
                              All& all) const {
  const MoeLayerShape& shape = layer_.problem().shape;
  const MoeRank& source = layer_.routing().rank(row.rank);
  const int64_t token = row.pair / (shape.topk + shape.shared);
  const int64_t slot = row.pair % (shape.topk + shape.shared);
  const float* const x = &source.x[token * shape.hidden];
  const float* const dout = &dout_[row.rank][token * shape.hidden];
  const double weight = layer_.routing().weight_of(row.rank, row.pair);
  for (int64_t i = 0; i < shape.inter; ++i) {
    double sum = 0, bound = 0;
    for (int64_t h = 0; h < shape.hidden; ++h) {
      sum += double{dout[h]} * expert.w2[h * shape.inter + i];
      bound += std::fabs(double{dout[h]} * expert.w2[h * shape.inter + i]);
    }
    double gate = kept[i], up = kept[shape.inter + i];
    bool gate_counts = true, up_counts = true;
    if (const double most = shape.activation_clamp; most > 0) {
      gate_counts = gate <= most;
      up_counts = std::fabs(up) <= most;
      gate = std::min(gate, most);
      up = std::clamp(up, -most, most);
    }
    const double sigmoid = 1 / (1 + std::exp(-gate));
    const double a = gate * sigmoid * up;
    const double slopes[2] = {gate_counts ? weight * up * sigmoid * (1 + gate * (1 - sigmoid)) : 0,
                              up_counts ? weight * gate * sigmoid : 0};
    for (int64_t h = 0; h < shape.hidden; ++h) {
      for (int which = 0; which < 2; ++which) {
        const int64_t at = (which * shape.inter + i) * shape.hidden + h;
        const double d = slopes[which] * sum;
        const double most = (std::fabs(slopes[which]) + std::fabs(weight)) * bound;
        all.dw13.add(expert.dw13 + at, d * x[h], most * std::fabs(x[h]));
        if (row.rank == rank) {
          all.dx.add(token * shape.hidden + h, d * expert.w13[at], most * std::fabs(expert.w13[at]));
        }
      }
      all.dw2.add(expert.dw2 + h * shape.inter + i, dout[h] * weight * a, std::fabs(dout[h] * weight * a));
    }
    if (row.rank == rank && slot < shape.topk) {
      all.scores.add(token * shape.topk + slot, sum * a, bound * std::fabs(a));
    }
  }
}

testing::AssertionResult MoeBackwardData::Sums::matches(const std::string& name, const std::vector<float>& seen,
                                                        double tolerance) const {
  if (seen.size() != right.size()) return testing::AssertionFailure() << name << " has " << seen.size() << " elements";
  for (size_t i = 0; i < seen.size(); ++i) {
    if (std::fabs(seen[i] - right[i]) <= tolerance * magnitude[i]) continue;
    return testing::AssertionFailure() << name << "[" << i << "] is " << seen[i] << ", not " << right[i];
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult MoeBackwardData::is_right(int rank, const MoeGradients& seen, double tolerance) const {
  const moe::LayerProblem& problem = layer_.problem();
  const int64_t elements = problem.shape.inter * problem.shape.hidden;  // of a matrix
  const int64_t tokens = layer_.routing().rank(rank).tokens;
  All all{Sums(tokens * problem.shape.hidden), Sums(tokens * problem.shape.topk), Sums(layer_.w13(rank).size()),
          Sums(layer_.w2(rank).size())};
  for (int owner = 0; owner < problem.world.size(); ++owner) {
    All others = all;  // gradients of another rank's weights are not looked at
    const float* kept = kept_[owner].data();
    for (int local = 0; local < problem.local_experts(); ++local) {
      const ExpertView expert{&layer_.w13(owner)[local * 2 * elements], &layer_.w2(owner)[local * elements],
                              local * 2 * elements, local * elements};
      for (const MoeRow& row : layer_.routing().rows_of(owner * problem.local_experts() + local)) {
        add_row(expert, row, kept, rank, others);
        kept += 2 * problem.shape.inter;
      }
    }
    all.dx = others.dx;
    all.scores = others.scores;
    if (owner == rank) all = others;
  }
  const std::string of = " of rank " + std::to_string(rank);
  for (const auto& [name, sums, values] :
       {std::tuple{"dx", &all.dx, &seen.dx}, std::tuple{"dtopk_weight", &all.scores, &seen.scores},
        std::tuple{"dw13", &all.dw13, &seen.dw13}, std::tuple{"dw2", &all.dw2, &seen.dw2}}) {
    if (const auto right = sums->matches(name + of, *values, tolerance); !right) return right;
  }
  return testing::AssertionSuccess();
}

}  // namespace mk::test

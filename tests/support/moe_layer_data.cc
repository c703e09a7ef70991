// SPDX-License-Identifier: MIT
// tests/support/moe_layer_data.cc — see moe_layer_data.h.
#include "tests/support/moe_layer_data.h"

#include <algorithm>
#include <cmath>

namespace mk::test {

MoeLayerData::MoeLayerData(const moe::LayerProblem& problem, Routing routing, uint64_t seed)
    : problem_(problem), routing_(problem.dispatch(), routing, seed) {
  tools::RoutingRandom random(seed + 1);
  const MoeLayerShape& shape = problem.shape;
  const auto filled = [&](int64_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(tools::below(random, 17) - 8) / 8;
    return values;
  };
  for (int rank = 0; rank < problem.world.size(); ++rank) {
    w13_.push_back(filled(problem.local_experts() * 2 * shape.inter * shape.hidden));
    w2_.push_back(filled(problem.local_experts() * shape.hidden * shape.inter));
  }
}

void MoeLayerData::add_expert(int expert, const float* x, double weight, Sums& sums) const {
  const MoeLayerShape& shape = problem_.shape;
  const int rank = expert / problem_.local_experts();
  const int local = expert % problem_.local_experts();
  const float* const gate = w13_[rank].data() + local * 2 * shape.inter * shape.hidden;
  const float* const up = gate + shape.inter * shape.hidden;
  const float* const w2 = w2_[rank].data() + local * shape.hidden * shape.inter;
  for (int64_t i = 0; i < shape.inter; ++i) {
    double g = 0, g_magnitude = 0;
    double u = 0, u_magnitude = 0;
    for (int64_t k = 0; k < shape.hidden; ++k) {
      g += double{x[k]} * gate[i * shape.hidden + k];
      u += double{x[k]} * up[i * shape.hidden + k];
      g_magnitude += std::fabs(x[k] * gate[i * shape.hidden + k]);
      u_magnitude += std::fabs(x[k] * up[i * shape.hidden + k]);
    }
    if (shape.activation_clamp > 0) {
      g = std::min<double>(g, shape.activation_clamp);
      u = std::clamp<double>(u, -shape.activation_clamp, shape.activation_clamp);
    }
    const double a = g / (1 + std::exp(-g)) * u;
    for (int64_t k = 0; k < shape.hidden; ++k) {
      const double factor = weight * w2[k * shape.inter + i];
      sums.right[k] += factor * a;
      sums.magnitude[k] += std::fabs(factor) * g_magnitude * u_magnitude;
    }
  }
}

testing::AssertionResult MoeLayerData::is_right(int rank, const std::vector<float>& out, double tolerance) const {
  const MoeLayerShape& shape = problem_.shape;
  const MoeRank& own = routing_.rank(rank);
  for (int64_t token = 0; token < own.tokens; ++token) {
    Sums sums{std::vector<double>(shape.hidden), std::vector<double>(shape.hidden)};
    const int slots = shape.topk + shape.shared;
    for (int64_t pair = token * slots; pair < (token + 1) * slots; ++pair) {
      const int64_t id = routing_.id_of(rank, pair);
      if (id < 0) continue;
      add_expert(static_cast<int>(id), &own.x[token * shape.hidden], routing_.weight_of(rank, pair), sums);
    }
    for (int64_t k = 0; k < shape.hidden; ++k) {
      const float seen = out[token * shape.hidden + k];
      if (std::fabs(seen - sums.right[k]) <= tolerance * sums.magnitude[k]) continue;
      return testing::AssertionFailure() << "rank " << rank << ", token " << token << ", column " << k << " is " << seen
                                         << ", not " << sums.right[k];
    }
  }
  return testing::AssertionSuccess();
}

uint64_t nvlink_bytes(const MoeLaunchData& data, const moe::LayerLayout& layout, int rank) {
  const WorldShape& world = layout.world;
  uint64_t rows = 0;  // results of rows that it delivered to others of its node
  for (int expert = 0; expert < layout.experts; ++expert) {
    const int there = layout.rank_of_expert(expert);
    if (there == rank || !world.same_node(there, rank)) continue;
    for (const MoeRow& row : data.rows_of(expert)) rows += world.local_of(row.rank) == world.local_of(rank);
  }
  return data.nvlink_bytes(layout, rank) + rows * (layout.row_bytes() + (layout.has_scores ? sizeof(float) : 0));
}

uint64_t network_bytes(const MoeLaunchData& data, const moe::LayerLayout& layout, int rank) {
  const WorldShape& world = layout.world;
  uint64_t bytes = data.network_bytes(layout, rank);
  for (int node = 0; node < world.nodes; ++node) {
    const int peer = world.rank_at(node, world.local_of(rank));
    bytes += data.crossing(rank, node).size() * layout.record_bytes();
    if (peer != rank) bytes += data.crossing(peer, world.node_of(rank)).size() * layout.sum_bytes();
  }
  return bytes;
}

}  // namespace mk::test

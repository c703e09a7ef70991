// SPDX-License-Identifier: MIT
// tools/moe_pairs.cc — see moe_pairs.h.
#include "moe_pairs.h"

#include <algorithm>

#include "base/math.h"
#include "data.h"
#include "ops/moe/moe_problem.h"

namespace mk::tools {

namespace {

int64_t most_tokens(const MoeFields& fields) { return std::max<int64_t>(fields.tokens, 1); }

int64_t phase_tokens(const WorldShape& world, const MoeFields& fields, DeviceKind device) {
  moe::Problem problem;
  problem.world = world;
  problem.shape.experts = fields.experts;
  problem.shape.topk = fields.topk;
  problem.shape.max_tokens = most_tokens(fields);
  return moe::phase_tokens_of(problem, device);
}

}  // namespace

MoePairs::MoePairs(const WorldShape& world, const MoeFields& fields, uint64_t seed, int launch, DeviceKind device)
    : world_(world),
      fields_(fields),
      phase_tokens_(phase_tokens(world, fields, device)),
      ids_(world.size()),
      by_expert_(fields.experts) {
  RoutingRandom random(mix(seed + kGoldenRatio * (static_cast<uint64_t>(launch) + 1)));
  for (int rank = 0; rank < world.size(); ++rank) {
    const int64_t some = below(random, 4) == 0 ? 0 : below(random, fields.tokens + 1);
    const int64_t tokens = launch == 0 ? fields.tokens : some;
    for (int64_t token = 0; token < tokens; ++token) {
      draw_token(random, fields.routing, fields.experts, local_experts(), fields.topk, ids_[rank]);
    }
  }
  asked_ = ids_;
  if (fields.max_rows) {
    drop_what_does_not_fit(ids_, fields.topk, local_experts(), [&](int) { return *fields.max_rows; });
  }
  // Of each node's experts: tokens of the node first, then those of others, phase by phase.
  for (int node = 0; node < world.nodes; ++node) {
    for (int rank = 0; rank < world.size(); ++rank) {
      if (world.node_of(rank) == node) add_rows(rank, node, 0, tokens(rank));
    }
    for (int64_t first = 0; first < most_tokens(fields); first += phase_tokens_) {
      for (int rank = 0; rank < world.size(); ++rank) {
        if (world.node_of(rank) != node) add_rows(rank, node, first, std::min(first + phase_tokens_, tokens(rank)));
      }
    }
  }
}

void MoePairs::add_rows(int rank, int node, int64_t first_token, int64_t end_token) {
  for (int64_t pair = first_token * fields_.topk; pair < end_token * fields_.topk; ++pair) {
    const int64_t id = ids_[rank][pair];
    if (id >= 0 && world_.node_of(static_cast<int>(id / local_experts())) == node)
      by_expert_[id].push_back({rank, pair});
  }
}

std::vector<int32_t> MoePairs::dropped(int rank) const {
  std::vector<int32_t> count(fields_.topk);
  for (size_t pair = 0; pair < ids_[rank].size(); ++pair) {
    count[pair % fields_.topk] += ids_[rank][pair] != asked_[rank][pair] ? 1 : 0;
  }
  return count;
}

int64_t MoePairs::rows_on(int rank) const {
  int64_t rows = 0;
  for (int i = 0; i < local_experts(); ++i) rows += std::ssize(by_expert_[rank * local_experts() + i]);
  return rows;
}

int64_t MoePairs::most_rows() const {
  int64_t most = 0;
  for (const std::vector<MoePair>& rows : by_expert_) most = std::max(most, std::ssize(rows));
  return most;
}

MoeTraffic MoePairs::traffic(int rank, uint64_t row_bytes) const {
  constexpr uint64_t kListed = 16;  // of a pair in a list
  const int64_t phases = ceil_div(most_tokens(fields_), phase_tokens_);
  const uint64_t counts = round_up<uint64_t>(4 * (phases * (fields_.experts + world_.nodes) + world_.nodes + 1), 16);
  const uint64_t claims = fields_.max_rows ? round_up<uint64_t>(4 * (world_.size() * fields_.topk + 1), 16) : 0;
  MoeTraffic moved{.nvlink_bytes = (counts + claims) * world_.nodes * (world_.ranks - 1),
                   .network_bytes = (counts + claims) * (world_.nodes - 1)};
  // A rank delivers in its node its own tokens and those of its rail peers.
  for (int node = 0; node < world_.nodes; ++node) {
    for (const int64_t id : ids_[world_.rank_at(node, world_.local_of(rank))]) {
      const int to = static_cast<int>(id / local_experts());
      if (id >= 0 && to != rank && world_.same_node(to, rank)) moved.nvlink_bytes += row_bytes + kListed;
    }
  }
  for (const int64_t id : ids_[rank]) {
    if (id >= 0 && !world_.same_node(static_cast<int>(id / local_experts()), rank)) moved.network_bytes += kListed;
  }
  for (int node = 0; node < world_.nodes; ++node) {
    if (node != world_.node_of(rank)) moved.crossing_tokens += crossing(rank, node);
  }
  moved.network_bytes += static_cast<uint64_t>(moved.crossing_tokens) * row_bytes;
  return moved;
}

MoeTraffic MoePairs::layer_traffic(int rank, uint64_t row_bytes) const {
  return there_and_back(rank, {row_bytes, row_bytes, row_bytes});
}

// x and dout go, dx comes back: each row with its fp32 dtopk_weight, each sum with those of all slots.
MoeTraffic MoePairs::backward_traffic(int rank, uint64_t row_bytes) const {
  const uint64_t sum = round_up<uint64_t>(row_bytes, 4) + round_up<uint64_t>(4 * fields_.topk, 16);
  return there_and_back(rank, {2 * row_bytes, row_bytes + 4, sum});
}

MoeTraffic MoePairs::there_and_back(int rank, const LayerBytes& bytes) const {
  MoeTraffic moved = traffic(rank, bytes.token);
  // Each token that crosses has a record: itself and its ids.
  const uint64_t record = round_up<uint64_t>(4 * (1 + fields_.topk), 16);
  moved.network_bytes += static_cast<uint64_t>(moved.crossing_tokens) * record;
  // One sum goes back for each token that came.
  const int here = world_.node_of(rank);
  for (int node = 0; node < world_.nodes; ++node) {
    const int peer = world_.rank_at(node, world_.local_of(rank));
    if (peer != rank) moved.network_bytes += static_cast<uint64_t>(crossing(peer, here)) * bytes.sum;
  }
  // Results of rows that it delivered to others of its node.
  for (int expert = 0; expert < fields_.experts; ++expert) {
    const int there = expert / local_experts();
    if (there == rank || !world_.same_node(there, rank)) continue;
    for (const MoePair& one : by_expert_[expert]) {
      if (world_.local_of(one.rank) == world_.local_of(rank)) moved.nvlink_bytes += bytes.result;
    }
  }
  return moved;
}

bool MoePairs::crosses(int rank, int64_t token, int node) const {
  for (int slot = 0; slot < fields_.topk; ++slot) {
    const int64_t id = ids_[rank][token * fields_.topk + slot];
    if (id >= 0 && world_.node_of(static_cast<int>(id / local_experts())) == node) return true;
  }
  return false;
}

int64_t MoePairs::crossing(int rank, int node) const {
  int64_t count = 0;
  for (int64_t token = 0; token < tokens(rank); ++token) count += crosses(rank, token, node) ? 1 : 0;
  return count;
}

}  // namespace mk::tools

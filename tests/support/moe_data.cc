// SPDX-License-Identifier: MIT
// tests/support/moe_data.cc — see moe_data.h.
#include "tests/support/moe_data.h"

#include <algorithm>
#include <cstring>

#include "core/schedule.h"
#include "ops/moe/moe_plan.h"

namespace mk::test {
namespace {

using Random = tools::RoutingRandom;
using tools::below;

// What a rank tells each other one of its routing.
uint64_t notices_bytes(const moe::Layout& layout) {
  return layout.counts_bytes() + (layout.drops ? layout.claims_bytes() : 0);
}

}  // namespace

MoeLaunchData::MoeLaunchData(const moe::Problem& problem, Routing routing, uint64_t seed, std::optional<int64_t> tokens)
    : problem_(problem), phase_tokens_(moe::phase_tokens_of(problem, DeviceKind::kCpu)), ranks_(problem.world.size()) {
  Random random(seed);
  const MoeShape& shape = problem.shape;
  const auto number = [&] { return static_cast<float>(below(random, 5) - 2); };
  for (MoeRank& own : ranks_) {
    own.tokens = tokens.value_or(below(random, 4) == 0 ? 0 : 1 + below(random, shape.max_tokens));
    for (int64_t token = 0; token < own.tokens; ++token) {
      const int named = problem.local_experts() - problem.shared;
      tools::draw_token(random, routing, named * problem.world.size(), named, named_slots(), own.ids);
    }
    own.weights.resize(own.ids.size());
    for (float& value : own.weights) value = number();
    own.x.resize(own.tokens * shape.hidden);
    own.w.resize(problem.local_experts() * shape.hidden * shape.n);
    for (float& value : own.x) value = number();
    for (float& value : own.w) value = number();
  }
  drop();
}

void MoeLaunchData::drop() {
  routed_.clear();
  for (const MoeRank& own : ranks_) routed_.push_back(own.ids);
  if (problem_.shape.overflow == MoeOverflow::kRefuse) return;
  const auto names_none = [&](int64_t id) { return !is_id(id); };
  for (std::vector<int64_t>& ids : routed_) std::ranges::replace_if(ids, names_none, -1);
  const auto room = [&](int rank) { return problem_.shape.max_rows - problem_.shared * ranks_[rank].tokens; };
  tools::drop_what_does_not_fit(routed_, named_slots(), problem_.local_experts() - problem_.shared, room);
}

int MoeLaunchData::dropped(int rank, int slot) const {
  int count = 0;
  for (size_t pair = slot; pair < routed_[rank].size(); pair += named_slots()) {
    count += is_id(ranks_[rank].ids[pair]) && routed_[rank][pair] < 0 ? 1 : 0;
  }
  return count;
}

bool MoeLaunchData::is_id(int64_t id) const {
  return id >= 0 && id < int64_t{problem_.local_experts() - problem_.shared} * problem_.world.size();
}

int64_t MoeLaunchData::id_of(int rank, int64_t pair) const {
  const int64_t token = pair / problem_.shape.topk;
  const int64_t slot = pair % problem_.shape.topk;
  const int64_t local = problem_.local_experts();
  const int64_t named = local - problem_.shared;
  if (slot >= named_slots()) return rank * local + named + slot - named_slots();
  const bool drops = problem_.shape.overflow == MoeOverflow::kDrop;
  const int64_t id = (drops ? routed_[rank] : ranks_[rank].ids)[token * named_slots() + slot];
  return is_id(id) ? id / named * local + id % named : -1;
}

float MoeLaunchData::weight_of(int rank, int64_t pair) const {
  const int64_t slot = pair % problem_.shape.topk;
  return slot < named_slots() ? ranks_[rank].weights[pair / problem_.shape.topk * named_slots() + slot] : 1;
}

std::vector<MoeRow> MoeLaunchData::rows_of(int expert) const {
  const WorldShape& world = problem_.world;
  const int home = expert / problem_.local_experts();
  std::vector<MoeRow> rows;
  const auto add = [&](int rank, int64_t first_token, int64_t end_token) {
    for (int64_t pair = first_token * problem_.shape.topk; pair < end_token * problem_.shape.topk; ++pair) {
      if (id_of(rank, pair) == expert) rows.push_back({rank, pair});
    }
  };
  for (int rank = 0; rank < world.size(); ++rank) {
    if (world.same_node(rank, home)) add(rank, 0, ranks_[rank].tokens);
  }
  for (int64_t first = 0; first < problem_.shape.max_tokens; first += phase_tokens_) {
    for (int rank = 0; rank < world.size(); ++rank) {
      if (!world.same_node(rank, home)) add(rank, first, std::min(first + phase_tokens_, ranks_[rank].tokens));
    }
  }
  return rows;
}

int64_t MoeLaunchData::rows_on(int rank) const {
  int64_t rows = 0;
  for (int i = 0; i < problem_.local_experts(); ++i) {
    rows += static_cast<int64_t>(rows_of(rank * problem_.local_experts() + i).size());
  }
  return rows;
}

std::vector<float> MoeLaunchData::exact(int expert, const MoeRow& row) const {
  const MoeShape& shape = problem_.shape;
  const float* const x = &ranks_[row.rank].x[row.pair / shape.topk * shape.hidden];
  const std::vector<float>& w = ranks_[expert / problem_.local_experts()].w;
  const int64_t first = expert % problem_.local_experts() * shape.hidden;
  std::vector<float> sums(shape.n);
  for (int64_t k = 0; k < shape.hidden; ++k) {
    for (int64_t col = 0; col < shape.n; ++col) sums[col] += x[k] * w[(first + k) * shape.n + col];
  }
  return sums;
}

testing::AssertionResult MoeLaunchData::is_right(int rank, const std::vector<float>& y,
                                                 const std::vector<int32_t>& origins,
                                                 const std::vector<int32_t>& expert_rows,
                                                 const std::vector<int32_t>& expert_ends, float poison) const {
  const MoeShape& shape = problem_.shape;
  size_t row = 0;
  for (int i = 0; i < problem_.local_experts(); ++i) {
    const int expert = rank * problem_.local_experts() + i;
    const std::vector<MoeRow> rows = rows_of(expert);
    for (const MoeRow& from : rows) {
      const std::vector<float> exact_row = exact(expert, from);
      for (int64_t col = 0; col < shape.n; ++col) {
        const float right = exact_row[col];
        const float seen = y[row * shape.n + col];
        if (seen == right) continue;
        return testing::AssertionFailure()
               << "rank " << rank << ", row " << row << ", column " << col << " is " << seen << ", not " << right;
      }
      float weight = 0;
      std::memcpy(&weight, &origins[row * 4 + 3], sizeof(weight));
      if (origins[row * 4 + 1] != from.rank || origins[row * 4 + 2] != from.pair ||
          weight != weight_of(from.rank, from.pair)) {
        return testing::AssertionFailure() << "rank " << rank << ", row " << row << " has a wrong origin";
      }
      ++row;
    }
    if (expert_rows[i] != static_cast<int32_t>(rows.size()) || expert_ends[i] != static_cast<int32_t>(row)) {
      return testing::AssertionFailure() << "rank " << rank << ", expert " << i << " has " << expert_rows[i]
                                         << " rows that end at " << expert_ends[i];
    }
  }
  for (size_t i = row * shape.n; i < y.size(); ++i) {
    if (y[i] != poison) return testing::AssertionFailure() << "rank " << rank << " wrote behind its last row";
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult MoeLaunchData::is_right_load(int rank, const std::vector<int32_t>& load,
                                                      int32_t before) const {
  for (int i = 0; i < problem_.local_experts(); ++i) {
    const auto rows = static_cast<int32_t>(rows_of(rank * problem_.local_experts() + i).size());
    if (load[i] == before + rows) continue;
    return testing::AssertionFailure() << "rank " << rank << ", expert " << i << " has a load of " << load[i]
                                       << " where " << rows << " were added to " << before;
  }
  return testing::AssertionSuccess();
}

std::vector<int64_t> MoeLaunchData::crossing(int rank, int node) const {
  std::vector<int64_t> tokens;
  const int per_node = problem_.local_experts() * problem_.world.ranks;
  if (node == problem_.world.node_of(rank)) return tokens;
  for (int64_t token = 0; token < ranks_[rank].tokens; ++token) {
    bool crosses = false;
    for (int slot = 0; slot < problem_.shape.topk; ++slot) {
      const int64_t id = id_of(rank, token * problem_.shape.topk + slot);
      crosses = crosses || (id >= 0 && id / per_node == node);
    }
    if (crosses) tokens.push_back(token);
  }
  return tokens;
}

std::vector<moe::Route> MoeLaunchData::list(const moe::Layout& layout, int rank) const {
  std::vector<moe::Route> routes;
  for (int node = 0; node < layout.world.nodes; ++node) {
    const std::vector<int64_t> crossed = crossing(rank, node);
    for (int i = 0; i < layout.node_experts(); ++i) {
      for (int64_t pair = 0; pair < ranks_[rank].tokens * layout.topk; ++pair) {
        if (id_of(rank, pair) != layout.first_expert_of_node(node) + i) continue;
        const int64_t token = pair / layout.topk;
        const bool stays = node == layout.world.node_of(rank);
        const auto row = stays ? token : std::find(crossed.begin(), crossed.end(), token) - crossed.begin();
        routes.push_back({static_cast<uint32_t>(row), static_cast<uint32_t>(rank), static_cast<uint32_t>(pair),
                          weight_of(rank, pair)});
      }
    }
  }
  return routes;
}

std::vector<uint32_t> MoeLaunchData::counts(const moe::Layout& layout, int rank) const {
  std::vector<uint32_t> words(layout.counts_bytes() / moe::kWord);
  // A token counts in its phase and in all after it.
  for (int64_t pair = 0; pair < ranks_[rank].tokens * layout.topk; ++pair) {
    const int64_t id = id_of(rank, pair);
    for (int phase = layout.phase_of_token(pair / layout.topk); phase < layout.num_phases() && id >= 0; ++phase) {
      ++words[layout.pairs_word(phase, static_cast<int>(id))];
    }
  }
  uint32_t pairs = 0;
  for (int node = 0; node < layout.world.nodes; ++node) {
    for (const int64_t token : crossing(rank, node)) {
      for (int phase = layout.phase_of_token(token); phase < layout.num_phases(); ++phase) {
        ++words[layout.crossing_word(phase, node)];
      }
    }
    words[layout.first_pair_word(node)] = pairs;
    for (int i = 0; i < layout.node_experts(); ++i) {
      pairs += words[layout.pairs_word(layout.last_phase(), layout.first_expert_of_node(node) + i)];
    }
  }
  words[layout.first_pair_word(layout.world.nodes)] = pairs;
  return words;
}

uint64_t MoeLaunchData::nvlink_bytes(const moe::Layout& layout, int rank) const {
  const WorldShape& world = layout.world;
  uint64_t rows = 0;
  for (int node = 0; node < world.nodes; ++node) {
    const int source = world.rank_at(node, world.local_of(rank));
    for (int64_t pair = 0; pair < ranks_[source].tokens * layout.topk; ++pair) {
      const int64_t id = id_of(source, pair);
      if (id < 0) continue;
      const int to = layout.rank_of_expert(static_cast<int>(id));
      rows += to != rank && world.same_node(to, rank);
    }
  }
  return rows * (layout.token_bytes() + sizeof(moe::Route)) + world.nodes * (world.ranks - 1) * notices_bytes(layout);
}

uint64_t MoeLaunchData::network_bytes(const moe::Layout& layout, int rank) const {
  uint64_t bytes = (layout.world.nodes - 1) * notices_bytes(layout);
  for (int node = 0; node < layout.world.nodes; ++node) bytes += crossing(rank, node).size() * layout.token_bytes();
  for (int64_t pair = 0; pair < ranks_[rank].tokens * layout.topk; ++pair) {
    const int64_t id = id_of(rank, pair);
    const bool crosses = id >= 0 && layout.node_of_expert(static_cast<int>(id)) != layout.world.node_of(rank);
    bytes += crosses ? sizeof(moe::Route) : 0;
  }
  return bytes;
}

MoeLaunches::MoeLaunches(const moe::Layout& layout, const moe::Problem& problem, int launches, uint64_t seed,
                         const Routing* routing)
    : layout_(layout) {
  Random random(seed);
  std::vector<std::vector<uint32_t>> plans(problem.world.size(),
                                           std::vector<uint32_t>(layout.plan_bytes() / moe::kWord));
  for (int launch = 0; launch < launches; ++launch) {
    const Routing drawn = routing != nullptr ? *routing : kRoutings[random() % std::size(kRoutings)];
    MoeLaunchData& data = data_.emplace_back(problem, drawn, random());
    data.set_phases(layout.phase_tokens);
    auto& counts = counts_.emplace_back();
    for (int rank = 0; rank < problem.world.size(); ++rank) counts.push_back(data.counts(layout, rank));
    std::vector<const uint32_t*> pointers;
    for (const auto& of : counts) pointers.push_back(of.data());
    for (int rank = 0; rank < problem.world.size(); ++rank) {
      moe::write_plan(layout, rank, pointers, plans[rank].data());
      for (int batch = 0; batch < layout.num_batches(); ++batch) {
        moe::write_batch(layout, rank, batch, pointers, plans[rank].data());
      }
    }
    plans_.push_back(plans);
  }
}

const std::vector<moe::Route>& MoeLaunches::list_of(uint64_t epoch, int rank) const {
  auto& list = lists_[{epoch, rank}];
  if (list.empty()) list = (*this)[epoch].list(layout_, rank);
  return list;
}

uint32_t MoeLaunches::value(uint64_t epoch, const Place& place) const {
  const uint64_t word = place.offset / moe::kWord;
  const int rank = place.rank;
  const WorldShape& world = layout_.world;
  const auto node_of_slot = [&](int slot) { return slot < world.node_of(rank) ? slot : slot + 1; };
  switch (place.window) {
    case moe::kCountsWindow: {
      const uint64_t words = layout_.counts_bytes() / moe::kWord;
      return counts_[epoch - 1][word / words % world.size()][word % words];
    }
    case moe::kPlanWindow: return plans_[epoch - 1][rank][word];
    case moe::kCrossingWindow: {
      const int node = node_of_slot(static_cast<int>(word / layout_.max_tokens));
      return static_cast<uint32_t>((*this)[epoch].crossing(rank, node)[word % layout_.max_tokens]);
    }
    case moe::kListWindow: return list_of(epoch, rank)[word / 4].row;
    case moe::kListsInWindow: {
      const int node = node_of_slot(static_cast<int>(word / 4 / layout_.max_pairs()));
      const int source = world.rank_at(node, world.local_of(rank));
      const uint32_t first = counts_[epoch - 1][source][layout_.first_pair_word(world.node_of(rank))];
      return list_of(epoch, source)[first + word / 4 % layout_.max_pairs()].row;
    }
    default: return 0;
  }
}

}  // namespace mk::test

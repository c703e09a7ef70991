// SPDX-License-Identifier: MIT
// bench/moe_tables.cc — see moe_tables.h.
#include "bench/moe_tables.h"

#include <algorithm>

namespace mk::bench {

int64_t returned_rows(const WorldShape& world, const tools::MoePairs& pairs, int rank) {
  int64_t rows = 0;
  for (int node = 0; node < world.nodes; ++node) {
    for (const int64_t id : pairs.ids(world.rank_at(node, world.local_of(rank)))) {
      const int to = static_cast<int>(id / pairs.local_experts());
      rows += to != rank && world.same_node(to, rank) ? 1 : 0;
    }
  }
  return rows;
}

MoeTables::MoeTables(const BenchCase& c, const tools::MoePairs& pairs, const std::vector<std::vector<float>>& weights,
                     const std::vector<MoeMemory>& memory, int num_chunks, RowOrder order)
    : world_(c.world),
      row_bytes_(c.k * size_of(c.dtype)),
      tokens_(c.moe.tokens),
      topk_(c.moe.topk),
      local_experts_(pairs.local_experts()),
      goes_back_(!weights.empty()),
      cut_(tokens_, num_chunks),
      memory_(memory),
      ranks_(world_.size()),
      places_(world_.size(), std::vector<Place>(tokens_ * topk_)),
      crossed_(world_.size()) {
  place_rows(pairs, order);
  list_crossing(pairs);
  list_deliveries(pairs);
  if (!goes_back_) return;
  list_returns(pairs);
  list_sums(pairs, weights);
}

int MoeTables::phase_of(int from, int to, int64_t token) const {
  return world_.same_node(from, to) ? own_phase(chunk_of(token)) : crossed_phase(chunk_of(token));
}

std::byte* MoeTables::by_node(std::byte* memory, int node, int64_t index) const {
  return memory + (node * tokens_ + index) * row_bytes_;
}

void MoeTables::place_rows(const tools::MoePairs& pairs, RowOrder order) {
  for (int rank = 0; rank < world_.size(); ++rank) {
    Rank& own = ranks_[rank];
    // [expert][phase], each in the order of the expert's pairs.
    std::vector<std::vector<std::vector<tools::MoePair>>> parts(local_experts_);
    for (int expert = 0; expert < local_experts_; ++expert) {
      parts[expert].resize(num_phases());
      for (const tools::MoePair& one : pairs.of_expert(rank * local_experts_ + expert)) {
        parts[expert][phase_of(one.rank, rank, one.pair / topk_)].push_back(one);
      }
      std::vector<tools::MoePair>& listed = own.order.emplace_back();
      for (const auto& part : parts[expert]) listed.insert(listed.end(), part.begin(), part.end());
    }
    std::vector<int64_t> result(local_experts_);  // where the expert's next results go
    for (int expert = 0; expert < local_experts_; ++expert) {
      result[expert] = own.num_rows;
      own.num_rows += std::ssize(own.order[expert]);
    }
    int64_t row = 0;
    const auto place = [&](int expert, int phase, std::vector<RowGroup>& groups) {
      const std::vector<tools::MoePair>& part = parts[expert][phase];
      for (const tools::MoePair& one : part) places_[one.rank][one.pair].row = row++;
      const int64_t count = std::ssize(part);
      if (count == 0) return;
      const int64_t first = row - count;
      groups.push_back({expert, first, goes_back_ ? first : result[expert], count});
      result[expert] += count;
    };
    if (order == RowOrder::kByPhase) {
      for (int phase = 0; phase < num_phases(); ++phase) {
        const int64_t first = row;
        std::vector<RowGroup>& groups = own.groups.emplace_back();
        for (int expert = 0; expert < local_experts_; ++expert) place(expert, phase, groups);
        own.rows.push_back({first, row - first});
      }
    } else {
      std::vector<RowGroup>& groups = own.groups.emplace_back();
      for (int expert = 0; expert < local_experts_; ++expert) {
        std::vector<RowGroup> all;
        for (int phase = 0; phase < num_phases(); ++phase) place(expert, phase, all);
        if (all.empty()) continue;
        RowGroup whole = all[0];
        whole.count = std::ssize(own.order[expert]);
        groups.push_back(whole);
      }
      own.rows.push_back({0, row});
    }
  }
}

// Tokens that cross, in their order.
void MoeTables::list_crossing(const tools::MoePairs& pairs) {
  for (int rank = 0; rank < world_.size(); ++rank) {
    Rank& own = ranks_[rank];
    crossed_[rank].assign(world_.nodes, std::vector<int64_t>(tokens_, -1));
    own.crossing.assign(world_.nodes, std::vector<Range>(num_chunks()));
    std::vector<int64_t> next(world_.nodes);
    for (int chunk = 0; chunk < num_chunks(); ++chunk) {
      const Range tokens = cut_.rows(chunk);
      const int64_t first = std::ssize(own.pack.all);
      for (int node = 0; node < world_.nodes; ++node) {
        own.crossing[node][chunk].first = next[node];
        for (int64_t token = tokens.first; token < tokens.first + tokens.count; ++token) {
          const auto ids = pairs.ids(rank).begin() + token * topk_;
          const auto is_there = [&](int64_t id) { return world_.node_of(expert_rank(id)) == node; };
          if (node == world_.node_of(rank) || std::none_of(ids, ids + topk_, is_there)) continue;
          const int64_t index = next[node]++;
          crossed_[rank][node][token] = index;
          own.pack.all.push_back({memory_[rank].x + token * row_bytes_, by_node(memory_[rank].outgoing, node, index)});
        }
        own.crossing[node][chunk].count = next[node] - own.crossing[node][chunk].first;
      }
      own.pack.end_part(first);
    }
  }
}

void MoeTables::list_deliveries(const tools::MoePairs& pairs) {
  // Tokens of `from` that are in the chunk, or all, by `rank`; gives how many rows go to peers.
  const auto deliver = [&](int rank, int from, const Range& tokens, std::vector<RowMove>& moves) {
    int64_t to_peers = 0;
    for (int64_t pair = tokens.first * topk_; pair < (tokens.first + tokens.count) * topk_; ++pair) {
      const int to = expert_rank(pairs.ids(from)[pair]);
      if (!world_.same_node(to, rank)) continue;
      const int64_t token = pair / topk_;
      const std::byte* const row = from == rank ? memory_[rank].x + token * row_bytes_
                                                : by_node(memory_[rank].incoming, world_.node_of(from),
                                                          crossed_[from][world_.node_of(rank)][token]);
      moves.push_back({row, memory_[to].rows + places_[from][pair].row * row_bytes_});
      to_peers += to != rank ? 1 : 0;
    }
    return to_peers;
  };
  for (int rank = 0; rank < world_.size(); ++rank) {
    Rank& own = ranks_[rank];
    for (int phase = 0; phase < own_phases(); ++phase) {
      const int64_t first = std::ssize(own.spread.all);
      const Range tokens = world_.nodes == 1 ? cut_.rows(phase) : Range{0, tokens_};
      own.spread_to_peers.push_back(deliver(rank, rank, tokens, own.spread.all));
      own.spread.end_part(first);
    }
    for (int chunk = 0; chunk < num_chunks(); ++chunk) {
      for (int node = 0; node < world_.nodes; ++node) {
        const int64_t first = std::ssize(own.forward.all);
        const int from = world_.rank_at(node, world_.local_of(rank));
        own.forwarded_to_peers.push_back(from == rank ? 0 : deliver(rank, from, cut_.rows(chunk), own.forward.all));
        own.forward.end_part(first);
      }
    }
  }
}

// What was delivered by the rank that computes it stays.
void MoeTables::list_returns(const tools::MoePairs& pairs) {
  std::vector<int64_t> next(world_.size());  // row of the rank that gets it
  for (int rank = 0; rank < world_.size(); ++rank) {
    Rank& own = ranks_[rank];
    std::vector<std::vector<RowMove>> moves(num_phases());
    for (int expert = 0; expert < local_experts_; ++expert) {
      for (const tools::MoePair& one : pairs.of_expert(rank * local_experts_ + expert)) {
        Place& place = places_[one.rank][one.pair];
        const std::byte* const result = memory_[rank].results + place.row * row_bytes_;
        const int to = deliverer(one.rank, rank);
        if (to == rank) {
          place.result = result;
          continue;
        }
        std::byte* const there = memory_[to].returned + next[to]++ * row_bytes_;
        place.result = there;
        moves[phase_of(one.rank, rank, one.pair / topk_)].push_back({result, there});
      }
    }
    for (const std::vector<RowMove>& some : moves) {
      const int64_t first = std::ssize(own.give_back.all);
      own.give_back.all.insert(own.give_back.all.end(), some.begin(), some.end());
      own.give_back.end_part(first);
    }
  }
}

void MoeTables::list_sums(const tools::MoePairs& pairs, const std::vector<std::vector<float>>& weights) {
  // The results that `rank` has of a token of `from`.
  const auto add_terms = [&](int rank, int from, int64_t token) {
    for (int64_t pair = token * topk_; pair < (token + 1) * topk_; ++pair) {
      if (!world_.same_node(expert_rank(pairs.ids(from)[pair]), rank)) continue;
      ranks_[rank].terms.push_back({places_[from][pair].result, weights[from][pair]});
    }
  };
  const auto end_sum = [&](int rank, std::byte* to, size_t first, Lists<RowSum>& sums) {
    const size_t count = ranks_[rank].terms.size() - first;
    sums.all.push_back({to, static_cast<uint32_t>(first), static_cast<uint32_t>(count)});
  };
  for (int rank = 0; rank < world_.size(); ++rank) {
    Rank& own = ranks_[rank];
    const int here = world_.node_of(rank);
    for (int chunk = 0; chunk < num_chunks(); ++chunk) {
      const Range tokens = cut_.rows(chunk);
      for (int node = 0; node < world_.nodes; ++node) {
        const int64_t first = std::ssize(own.for_rails.all);
        const int from = world_.rank_at(node, world_.local_of(rank));
        for (int64_t token = tokens.first; token < tokens.first + tokens.count; ++token) {
          const int64_t index = crossed_[from][here][token];
          if (index < 0) continue;
          const size_t first_term = own.terms.size();
          add_terms(rank, from, token);
          end_sum(rank, by_node(memory_[rank].sums_out, node, index), first_term, own.for_rails);
        }
        own.for_rails.end_part(first);
      }
      const int64_t first = std::ssize(own.own.all);
      for (int64_t token = tokens.first; token < tokens.first + tokens.count; ++token) {
        const size_t first_term = own.terms.size();
        add_terms(rank, rank, token);
        for (int node = 0; node < world_.nodes; ++node) {
          const int64_t index = crossed_[rank][node][token];
          if (index >= 0) own.terms.push_back({by_node(memory_[rank].sums_in, node, index), 1});
        }
        end_sum(rank, memory_[rank].out + token * row_bytes_, first_term, own.own);
      }
      own.own.end_part(first);
    }
  }
}

}  // namespace mk::bench

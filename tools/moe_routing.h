// SPDX-License-Identifier: MIT
// tools/moe_routing.h — how tokens choose their experts, in runs and in tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

namespace mk::tools {

enum class Routing { kUniform, kZipf, kOneExpert, kOneRank, kNone, kRandomDrop };

inline constexpr Routing kRoutings[] = {Routing::kUniform, Routing::kZipf, Routing::kOneExpert,
                                        Routing::kOneRank, Routing::kNone, Routing::kRandomDrop};

constexpr const char* name_of(Routing routing) {
  switch (routing) {
    case Routing::kUniform: return "uniform";
    case Routing::kZipf: return "zipf";
    case Routing::kOneExpert: return "one_expert";
    case Routing::kOneRank: return "one_rank";
    case Routing::kNone: return "none";
    case Routing::kRandomDrop: return "random_drop";
  }
  return "unknown";
}

enum class Direction { kForward, kBackward };

constexpr const char* name_of(Direction direction) { return direction == Direction::kForward ? "fwd" : "bwd"; }

using RoutingRandom = std::mt19937_64;

inline int64_t below(RoutingRandom& random, int64_t end) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
}

// An expert, or -1.  The last rank has the last `local_experts` of them.
inline int64_t draw_expert(RoutingRandom& random, Routing routing, int experts, int local_experts) {
  switch (routing) {
    case Routing::kUniform: return below(random, experts);
    case Routing::kZipf: {
      const double u = static_cast<double>(random() % 1'000'000) / 1e6;
      return std::min<int64_t>(experts - 1, static_cast<int64_t>(std::pow(experts, u)) - 1);
    }
    case Routing::kOneExpert: return experts / 2;
    case Routing::kOneRank: return experts - local_experts + below(random, local_experts);
    case Routing::kNone: return -1;
    case Routing::kRandomDrop: return below(random, 2) == 0 ? -1 : below(random, experts);
  }
  return -1;
}

// One for each slot of a token; distinct, as far as the routing allows.
inline void draw_token(RoutingRandom& random, Routing routing, int experts, int local_experts, int topk,
                       std::vector<int64_t>& ids) {
  std::set<int64_t> taken;
  for (int slot = 0; slot < topk; ++slot) {
    int64_t id = draw_expert(random, routing, experts, local_experts);
    for (int tries = 0; tries < 8 && id >= 0 && taken.contains(id); ++tries) {
      id = draw_expert(random, routing, experts, local_experts);
    }
    taken.insert(id);
    ids.push_back(id);
  }
}

// Leaves out ids, of all ranks, of experts whose rank has no room for them: room(rank) goes to slots in their order, in
// a slot by rank and token.  An id that names no expert takes no room.
template <class Room>
void drop_what_does_not_fit(std::vector<std::vector<int64_t>>& ids, int slots, int local_experts, const Room& room) {
  const auto ranks = static_cast<int64_t>(ids.size());
  std::vector<int64_t> left;
  for (int64_t rank = 0; rank < ranks; ++rank) left.push_back(room(static_cast<int>(rank)));
  for (int slot = 0; slot < slots; ++slot) {
    for (std::vector<int64_t>& own : ids) {
      for (size_t pair = slot; pair < own.size(); pair += slots) {
        const int64_t to = own[pair] / local_experts;
        if (own[pair] >= 0 && to < ranks && --left[to] < 0) own[pair] = -1;
      }
    }
  }
}

}  // namespace mk::tools

// SPDX-License-Identifier: MIT
// ops/fuzz_case.h — what a seed decides about a fuzzed run, whatever the operator.
#pragma once

#include <cstdint>
#include <optional>

#include "base/check.h"
#include "core/world_shape.h"
#include "target/sim/random.h"
#include "target/sim/sim_core.h"

namespace mk {

// What the caller fixes; the seed draws the rest.
struct FuzzLimits {
  std::optional<int> nodes = {};
  std::optional<int> ranks = {};
  std::optional<int64_t> m = {};
  std::optional<int64_t> n = {};
  std::optional<int64_t> k = {};
  std::optional<int> launches = {};
};

enum class Tracing { kOff, kOn };

constexpr int kMostFuzzNodes = 4;
constexpr int kMostFuzzRanks = 4;

constexpr int kMostFuzzWorld = 64;  // ranks, when the caller chooses

inline WorldShape draw_world(sim::Random& random, const FuzzLimits& limits) {
  const int nodes = limits.nodes.value_or(1 + static_cast<int>(random.below(kMostFuzzNodes)));
  const int ranks = limits.ranks.value_or(1 + static_cast<int>(random.below(kMostFuzzRanks)));
  check_arg(nodes >= 1, "nodes is {}; it must be at least 1", nodes);
  check_arg(ranks >= 1, "ranks_per_node is {}; it must be at least 1", ranks);
  check_arg(int64_t{nodes} * ranks <= kMostFuzzWorld, "nodes x ranks is {} x {}; a fuzzed world has at most {} ranks",
            nodes, ranks, kMostFuzzWorld);
  return {nodes, ranks};
}

// Three to five launches: one to begin, one that reuses memory, one that reuses it again.
inline int draw_launches(sim::Random& random, const FuzzLimits& limits) {
  const int launches = limits.launches.value_or(3 + static_cast<int>(random.below(3)));
  check_arg(launches >= 1 && launches <= 1000, "launches is {}; it must be 1 to 1000", launches);
  return launches;
}

// What a tile takes when fuzzing, before it is varied: about as long as a signal, so that either may overtake.
inline void set_fuzzed_tile(sim::Costs& costs) {
  costs.sm_tflops = 5.7;
  costs.tile_overhead = 500 * sim::kNanosecond;
}

// A disturbed world with data; the ring is as small as one command.
inline void disturb(sim::SimSpec& spec, sim::Random& random, uint64_t seed) {
  spec.seed = seed;
  spec.disturbance = sim::Disturbance::Kind::kFuzz;
  set_fuzzed_tile(spec.costs);
  spec.ring_capacity = 1u << random.below(4);
  spec.load_ahead = 1 + static_cast<int>(random.below(3));
}

}  // namespace mk

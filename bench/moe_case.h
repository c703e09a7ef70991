// SPDX-License-Identifier: MIT
// bench/moe_case.h — mixtures of experts that are timed: how tokens choose experts, and the bytes that moves.
//
// Each input set has a routing of its own: experts are drawn evenly, from a seed, and those of a token are distinct.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/bench_case.h"
#include "tools/moe_pairs.h"

namespace mk::bench {

constexpr uint64_t kMoeSeed = 1;

// What a caller may say of a mixture of experts; the rest is chosen.
struct MoeWish {
  std::optional<int64_t> tokens = {};  // of a rank
  std::optional<int64_t> hidden = {};
  std::optional<int64_t> inter = {};
  std::optional<int> experts = {};
  std::optional<int> topk = {};

  bool is_empty() const { return !tokens && !hidden && !inter && !experts && !topk; }
};

// With `tokens` one, else a list: a few tokens of each rank, where latency counts, then 4096 and 16384.
std::vector<BenchCase> moe_cases(OpKind op, const WorldShape& world, const MoeWish& wish = {});

constexpr int64_t token_bytes(const BenchCase& c) { return c.k * size_of(c.dtype); }

tools::MoePairs routing_of(const BenchCase& c, int set);

// The fewest bytes that a rank must send for one routing; of rows only, not of counts and lists:
//
//   dispatch   a token crosses to the rail peer in each other node that has an expert of it, once; a rank gives peers
//              of its node a row for each pair of theirs, of its own tokens and of those that its rails brought
//   layer      then results go back to the rank that delivered the row, where they count, and for each token that
//              crossed one sum crosses back
Traffic moe_traffic_of(const BenchCase& c, const tools::MoePairs& pairs, int rank);

// Of the busiest rank; of all input sets the one that sends least, so that no run can have sent less.
Traffic moe_traffic_of(const BenchCase& c);

}  // namespace mk::bench

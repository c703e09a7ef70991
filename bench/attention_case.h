// SPDX-License-Identifier: MIT
// bench/attention_case.h — attention over many ranks, to be timed: its shapes, and the bytes it moves.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/bench_case.h"
#include "ops/attention/ring_attention_problem.h"
#include "tools/attention_values.h"

namespace mk::bench {

constexpr uint64_t kAttentionSeed = 1;
constexpr int64_t kAttentionDim = 128;  // the paced kernel has this one

// What a caller may say of attention; the rest is chosen.
struct AttentionWish {
  std::optional<int64_t> seq = {};  // of all ranks together
  std::optional<int64_t> heads = {};
  std::optional<int64_t> kv_heads = {};
  std::optional<AttentionMask> mask = {};
  std::optional<SequenceOrder> order = {};

  bool is_empty() const { return !seq && !heads && !kv_heads && !mask && !order; }
};

// A list: with `seq` or `mask` those alone.  The order is zigzag where the mask is causal, unless it is said.
std::vector<BenchCase> attention_cases(const WorldShape& world, const AttentionWish& wish = {});

attention::Problem attention_problem(const BenchCase& c);
tools::AttentionSize attention_size(const BenchCase& c);

// Of the busiest rank: rows of keys and values that others need, as the operator counts them.
Traffic attention_traffic_of(const BenchCase& c);

}  // namespace mk::bench

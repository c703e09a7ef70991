// SPDX-License-Identifier: MIT
// bench/moe_case.cc — see moe_case.h.
#include "bench/moe_case.h"

#include <algorithm>
#include <limits>

namespace mk::bench {
namespace {

// Compute and communication are of the same order in 2x2 with real links: with eight experts a token, a product of 2048
// columns takes 1.2 times as long as the rows on their rail, and a layer whose gate has 1024 columns 0.9 times, there
// and back.  Neither hangs on `hidden`.  Eight experts a rank, so that the weights of three input sets fit beside
// everything else; each has 4096 rows or more at 4096 tokens.
constexpr int64_t kHidden = 4096;
constexpr int64_t kColumns = 2048;
constexpr int64_t kGateColumns = 1024;
constexpr int kLocalExperts = 8;
constexpr int kTopk = 8;
constexpr int64_t kTokens[] = {1, 2, 4, 8, 16, 32, 64, 128, 4096, 16384};

BenchCase moe_case(OpKind op, const WorldShape& world, const MoeWish& wish, int64_t tokens) {
  const int experts = wish.experts.value_or(kLocalExperts * world.size());
  const int topk = wish.topk.value_or(std::min(kTopk, experts));
  return {.op = op,
          .world = world,
          .m = tokens * topk,
          .n = wish.inter.value_or(op == OpKind::kMoeLayer ? kGateColumns : kColumns),
          .k = wish.hidden.value_or(kHidden),
          .dtype = DType::kBf16,
          .moe = {tokens, experts, topk}};
}

}  // namespace

std::vector<BenchCase> moe_cases(OpKind op, const WorldShape& world, const MoeWish& wish) {
  if (wish.tokens) return {moe_case(op, world, wish, *wish.tokens)};
  std::vector<BenchCase> cases;
  for (const int64_t tokens : kTokens) cases.push_back(moe_case(op, world, wish, tokens));
  return cases;
}

// In the first launch of a seed all ranks have all tokens.
tools::MoePairs routing_of(const BenchCase& c, int set) {
  return {c.world,
          {.tokens = c.moe.tokens, .experts = c.moe.experts, .topk = c.moe.topk},
          kMoeSeed + set,
          0,
          DeviceKind::kCuda};
}

// What is moved grows with a row's bytes; the rest of it is counts and lists.
Traffic moe_traffic_of(const BenchCase& c, const tools::MoePairs& pairs, int rank) {
  const auto moved = [&](int64_t row_bytes) {
    return c.op == OpKind::kMoeLayer ? pairs.layer_traffic(rank, row_bytes) : pairs.traffic(rank, row_bytes);
  };
  const tools::MoeTraffic all = moved(token_bytes(c));
  const tools::MoeTraffic lists = moved(0);
  return {static_cast<int64_t>(all.nvlink_bytes - lists.nvlink_bytes),
          static_cast<int64_t>(all.network_bytes - lists.network_bytes)};
}

Traffic moe_traffic_of(const BenchCase& c) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Traffic least{kMost, kMost};
  for (int set = 0; set < kInputSets; ++set) {
    const tools::MoePairs pairs = routing_of(c, set);
    Traffic busiest;
    for (int rank = 0; rank < c.world.size(); ++rank) {
      const Traffic own = moe_traffic_of(c, pairs, rank);
      busiest.nvlink_bytes = std::max(busiest.nvlink_bytes, own.nvlink_bytes);
      busiest.network_bytes = std::max(busiest.network_bytes, own.network_bytes);
    }
    least.nvlink_bytes = std::min(least.nvlink_bytes, busiest.nvlink_bytes);
    least.network_bytes = std::min(least.network_bytes, busiest.network_bytes);
  }
  return least;
}

}  // namespace mk::bench

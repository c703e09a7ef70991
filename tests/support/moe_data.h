// SPDX-License-Identifier: MIT
// tests/support/moe_data.h — inputs of a mixture of experts, launch by launch, and what is right, by plain search.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/moe/moe_problem.h"
#include "ops/moe/moe_targets.h"
#include "tools/moe_routing.h"

namespace mk::test {

using tools::kRoutings;
using tools::Routing;

// What a rank brings to a launch, in fp32: small whole numbers, so that every sum is exact.
struct MoeRank {
  int64_t tokens = 0;
  std::vector<int64_t> ids;    // [tokens][named slots]
  std::vector<float> weights;  // likewise
  std::vector<float> x;        // [tokens][hidden]
  std::vector<float> w;        // [local experts][hidden][n]
};

struct MoeRow {
  int rank = 0;  // of the token
  int64_t pair = 0;
};

class MoeLaunchData {
 public:
  // Every rank has up to max_tokens tokens, and some have none; or all have `tokens`.  Ids of a token are distinct, as
  // far as the routing allows.
  MoeLaunchData(const moe::Problem& problem, Routing routing, uint64_t seed, std::optional<int64_t> tokens = {});

  const moe::Problem& problem() const { return problem_; }
  MoeRank& rank(int rank) { return ranks_[rank]; }
  const MoeRank& rank(int rank) const { return ranks_[rank]; }

  // Rows lie as on a CPU, unless something else is said here: as on a GPU, or as a layout has them.
  void set_phases(int tokens) { phase_tokens_ = tokens; }
  void set_phases(DeviceKind device) { phase_tokens_ = moe::phase_tokens_of(problem_, device); }

  // Ids were changed: what is dropped follows from them.
  void drop();
  // Ids of a rank as they are in effect, [tokens][named slots], and how many of each slot were dropped.
  const std::vector<int64_t>& routed_ids(int rank) const { return routed_[rank]; }
  int dropped(int rank, int slot) const;

  int named_slots() const { return problem_.shape.topk - problem_.shared; }
  int64_t id_of(int rank, int64_t pair) const;  // the expert's number; -1 too where it names none
  float weight_of(int rank, int64_t pair) const;
  std::vector<MoeRow> rows_of(int expert) const;  // in their order
  int64_t rows_on(int rank) const;
  std::vector<float> exact(int expert, const MoeRow& row) const;  // [n]

  // y, origins, expert_rows and expert_ends of a rank; `poison` is what y's other rows still hold.
  testing::AssertionResult is_right(int rank, const std::vector<float>& y, const std::vector<int32_t>& origins,
                                    const std::vector<int32_t>& expert_rows, const std::vector<int32_t>& expert_ends,
                                    float poison) const;
  // Counters of load of a rank, which were all `before` when the launch began.
  testing::AssertionResult is_right_load(int rank, const std::vector<int32_t>& load, int32_t before) const;

  // Tokens of a rank that cross to another node, in the order in which they do.
  std::vector<int64_t> crossing(int rank, int node) const;
  // The list of a rank, as its Routes say.
  std::vector<moe::Route> list(const moe::Layout& layout, int rank) const;
  // The Counts of a rank.
  std::vector<uint32_t> counts(const moe::Layout& layout, int rank) const;

  // What a rank moves: over NVLink in its node, and over its rail.
  uint64_t nvlink_bytes(const moe::Layout& layout, int rank) const;
  uint64_t network_bytes(const moe::Layout& layout, int rank) const;

 private:
  bool is_id(int64_t id) const;  // that names an expert

  moe::Problem problem_;
  int phase_tokens_;
  std::vector<MoeRank> ranks_;
  std::vector<std::vector<int64_t>> routed_;  // [rank]
};

// Several launches, and what lies where values belong.
class MoeLaunches {
 public:
  // Each launch has a routing of its own, drawn from the seed, or the one given.
  MoeLaunches(const moe::Layout& layout, const moe::Problem& problem, int launches, uint64_t seed,
              const Routing* routing = nullptr);

  MoeLaunchData& operator[](uint64_t epoch) { return data_[epoch - 1]; }
  const MoeLaunchData& operator[](uint64_t epoch) const { return data_[epoch - 1]; }
  int count() const { return static_cast<int>(data_.size()); }

  const std::vector<uint32_t>& counts(uint64_t epoch, int rank) const { return counts_[epoch - 1][rank]; }
  uint32_t value(uint64_t epoch, const Place& place) const;

 private:
  const std::vector<moe::Route>& list_of(uint64_t epoch, int rank) const;

  moe::Layout layout_;
  std::vector<MoeLaunchData> data_;
  std::vector<std::vector<std::vector<uint32_t>>> plans_;   // [launch][rank]
  std::vector<std::vector<std::vector<uint32_t>>> counts_;  // likewise
  mutable std::map<std::pair<uint64_t, int>, std::vector<moe::Route>> lists_;
};

// A problem for the CPU in fp32.
inline moe::Problem moe_problem(const WorldShape& world, int local_experts, int topk, int64_t max_tokens,
                                int64_t max_rows = 0, int64_t hidden = 5, int64_t n = 7) {
  const int experts = local_experts * world.size();
  if (max_rows == 0) max_rows = max_tokens * world.size() * topk;
  return {world, {hidden, n, experts, topk, max_tokens, max_rows}, DType::kFp32};
}

}  // namespace mk::test

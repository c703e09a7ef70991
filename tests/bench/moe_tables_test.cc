// SPDX-License-Identifier: MIT
// tests/bench/moe_tables_test.cc — mixtures of experts that are timed: their bytes, their sizes, and the tables of the
// host-driven baseline, followed row by row.
#include "bench/moe_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "bench/moe_case.h"
#include "bench/paced_split.h"
#include "bench/shapes.h"
#include "ops/moe/moe_layer_problem.h"
#include "ops/moe/moe_layout.h"
#include "tests/support/worlds.h"

namespace mk::bench {
namespace {

constexpr WorldShape kMoeWorlds[] = {{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2}, {2, 3}, {3, 2}, {4, 1}};

// A row of four bf16 has the bytes of one double.
constexpr int64_t kRowElements = 4;

BenchCase small_case(OpKind op, const WorldShape& world, int64_t tokens) {
  return moe_cases(op, world,
                   {.tokens = tokens, .hidden = kRowElements, .inter = 8, .experts = 2 * world.size(), .topk = 2})[0];
}

double value_of(const std::byte* row) {
  double value = 0;
  std::memcpy(&value, row, sizeof(value));
  return value;
}
void set_value(std::byte* row, double value) { std::memcpy(row, &value, sizeof(value)); }

// The memory of all ranks, and a run that follows the tables.
class Follower {
 public:
  Follower(const BenchCase& c, const tools::MoePairs& pairs, int num_chunks, RowOrder order) : case_(c), pairs_(pairs) {
    const WorldShape& world = c.world;
    const int64_t by_node = world.nodes * c.moe.tokens;
    for (int rank = 0; rank < world.size(); ++rank) {
      const int64_t rows = pairs.rows_on(rank);
      const int64_t sizes[] = {c.moe.tokens, by_node, by_node,     rows, rows, returned_rows(world, pairs, rank),
                               by_node,      by_node, c.moe.tokens};
      std::byte* at[std::size(sizes)] = {};
      for (size_t i = 0; i < std::size(sizes); ++i) at[i] = make(sizes[i]);
      memory_.push_back({at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], at[8]});
      for (int64_t token = 0; token < c.moe.tokens; ++token) set_value(at[0] + token * 8, token_value(rank, token));
      if (c.op != OpKind::kMoeLayer) continue;
      std::vector<float>& weights = weights_.emplace_back();
      for (size_t pair = 0; pair < pairs.ids(rank).size(); ++pair) {
        weights.push_back(static_cast<float>((pair + rank) % 5) - 2);
      }
    }
    tables_ = std::make_unique<MoeTables>(c, pairs, weights_, memory_, num_chunks, order);
  }

  const MoeTables& tables() const { return *tables_; }
  const WorldShape& world() const { return case_.world; }
  static double token_value(int rank, int64_t token) { return 1000.0 * (rank + 1) + static_cast<double>(token); }
  const std::byte* row(int rank, int64_t number) const { return memory_[rank].rows + number * 8; }

  void dispatch() {
    for (int rank = 0; rank < world().size(); ++rank) follow(tables_->rank(rank).pack);
    cross(&MoeMemory::outgoing, &MoeMemory::incoming, /*is_back=*/false);
    for (int rank = 0; rank < world().size(); ++rank) {
      follow(tables_->rank(rank).spread);
      follow(tables_->rank(rank).forward);
    }
  }
  void multiply() {
    for (int rank = 0; rank < world().size(); ++rank) {
      for (const auto& groups : tables_->rank(rank).groups) {
        for (const RowGroup& group : groups) {
          const int expert = rank * pairs_.local_experts() + group.expert;
          for (int64_t i = 0; i < group.count; ++i) {
            set_value(const_cast<std::byte*>(memory_[rank].results) + (group.c_row + i) * 8,
                      (expert + 1) * value_of(row(rank, group.a_row + i)));
          }
        }
      }
    }
  }
  void go_back() {
    for (int rank = 0; rank < world().size(); ++rank) follow(tables_->rank(rank).give_back);
    for (int rank = 0; rank < world().size(); ++rank) sum(rank, tables_->rank(rank).for_rails);
    cross(&MoeMemory::sums_out, &MoeMemory::sums_in, /*is_back=*/true);
    for (int rank = 0; rank < world().size(); ++rank) sum(rank, tables_->rank(rank).own);
  }
  double out(int rank, int64_t token) const { return value_of(memory_[rank].out + token * 8); }
  double wanted(int rank, int64_t token) const {
    double sum = 0;
    for (int64_t pair = token * case_.moe.topk; pair < (token + 1) * case_.moe.topk; ++pair) {
      sum += weights_[rank][pair] * static_cast<double>(pairs_.ids(rank)[pair] + 1) * token_value(rank, token);
    }
    return sum;
  }

 private:
  std::byte* make(int64_t rows) { return buffers_.emplace_back(rows * 8 + 1).data(); }
  static void follow(const Lists<RowMove>& moves) {
    int64_t next = 0;
    for (const Range& part : moves.parts) {
      EXPECT_EQ(part.first, next);
      next += part.count;
    }
    EXPECT_EQ(next, std::ssize(moves.all));
    for (const RowMove& move : moves.all) std::memcpy(move.to, move.from, 8);
  }
  void sum(int rank, const Lists<RowSum>& sums) {
    const std::vector<RowTerm>& terms = tables_->rank(rank).terms;
    for (const RowSum& one : sums.all) {
      double value = 0;
      for (uint32_t i = one.first; i < one.first + one.count; ++i) value += terms[i].weight * value_of(terms[i].row);
      set_value(one.to, value);
    }
  }
  // Of what goes from a rank to its rail peers, or comes back.
  void cross(std::byte* MoeMemory::*from, std::byte* MoeMemory::*to, bool is_back) {
    for (int rank = 0; rank < world().size(); ++rank) {
      for (int node = 0; node < world().nodes; ++node) {
        const int peer = world().rank_at(node, world().local_of(rank));
        for (const Range& part : tables_->rank(rank).crossing[node]) {
          if (part.count == 0) continue;
          const int64_t here = world().node_of(rank) * case_.moe.tokens + part.first;
          const int64_t there = node * case_.moe.tokens + part.first;
          if (is_back) {
            std::memcpy(memory_[rank].*to + there * 8, memory_[peer].*from + here * 8, part.count * 8);
          } else {
            std::memcpy(memory_[peer].*to + here * 8, memory_[rank].*from + there * 8, part.count * 8);
          }
        }
      }
    }
  }

  const BenchCase case_;
  const tools::MoePairs& pairs_;
  std::vector<std::vector<std::byte>> buffers_;
  std::vector<MoeMemory> memory_;
  std::vector<std::vector<float>> weights_;
  std::unique_ptr<MoeTables> tables_;
};

class MoeTablesTest : public testing::TestWithParam<std::tuple<WorldShape, int, RowOrder>> {};

TEST_P(MoeTablesTest, EveryRowOfAnExpertIsTheTokenThatItsOrderNames) {
  const auto& [world, chunks, order] = GetParam();
  for (const int64_t tokens : {1, 5, 64}) {
    const BenchCase c = small_case(OpKind::kMoeDispatchGemm, world, tokens);
    const tools::MoePairs pairs = routing_of(c, 0);
    Follower run(c, pairs, chunks, order);
    run.dispatch();
    for (int rank = 0; rank < world.size(); ++rank) {
      const MoeTables::Rank& own = run.tables().rank(rank);
      EXPECT_EQ(own.num_rows, pairs.rows_on(rank));
      std::vector<int64_t> next(pairs.local_experts());
      int64_t first_result = 0;
      std::vector<int64_t> results;
      for (int expert = 0; expert < pairs.local_experts(); ++expert) {
        results.push_back(first_result);
        first_result += std::ssize(own.order[expert]);
        EXPECT_EQ(own.order[expert].size(), pairs.of_expert(rank * pairs.local_experts() + expert).size());
      }
      for (const auto& groups : own.groups) {
        for (const RowGroup& group : groups) {
          EXPECT_EQ(group.c_row, results[group.expert] + next[group.expert]);
          for (int64_t i = 0; i < group.count; ++i) {
            const tools::MoePair& one = own.order[group.expert][next[group.expert]++];
            EXPECT_EQ(value_of(run.row(rank, group.a_row + i)), Follower::token_value(one.rank, one.pair / c.moe.topk));
          }
        }
      }
      for (int expert = 0; expert < pairs.local_experts(); ++expert) {
        EXPECT_EQ(next[expert], std::ssize(own.order[expert]));
      }
    }
  }
}

TEST_P(MoeTablesTest, EveryTokenGetsTheWeightedSumOfItsExperts) {
  const auto& [world, chunks, order] = GetParam();
  for (const int64_t tokens : {1, 5, 64}) {
    const BenchCase c = small_case(OpKind::kMoeLayer, world, tokens);
    const tools::MoePairs pairs = routing_of(c, 1);
    Follower run(c, pairs, chunks, order);
    run.dispatch();
    run.multiply();
    run.go_back();
    for (int rank = 0; rank < world.size(); ++rank) {
      for (int64_t token = 0; token < tokens; ++token) EXPECT_EQ(run.out(rank, token), run.wanted(rank, token));
    }
  }
}

// Results go back inside a node: the baseline's experts send them, and the formula counts them where they are read.
TEST_P(MoeTablesTest, TheBaselineMovesTheFewestBytes) {
  const auto& [world, chunks, order] = GetParam();
  for (const OpKind op : kMoeKinds) {
    const BenchCase c = small_case(op, world, 64);
    const tools::MoePairs pairs = routing_of(c, 2);
    const Follower run(c, pairs, chunks, order);
    int64_t back = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      const MoeTables::Rank& own = run.tables().rank(rank);
      int64_t to_peers = 0;
      for (const int64_t rows : own.spread_to_peers) to_peers += rows;
      for (const int64_t rows : own.forwarded_to_peers) to_peers += rows;
      const int64_t crossing = std::ssize(own.pack.all) + std::ssize(own.for_rails.all);
      const Traffic fewest = moe_traffic_of(c, pairs, rank);
      back += std::ssize(own.give_back.all) * token_bytes(c);
      back -= fewest.nvlink_bytes - to_peers * token_bytes(c);
      if (op == OpKind::kMoeDispatchGemm) {
        EXPECT_EQ(to_peers * token_bytes(c), fewest.nvlink_bytes);
      }
      EXPECT_EQ(crossing * token_bytes(c), fewest.network_bytes);
    }
    EXPECT_EQ(back, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, MoeTablesTest,
                         testing::Combine(testing::ValuesIn(kMoeWorlds), testing::Values(1, 2, 8),
                                          testing::Values(RowOrder::kByExpert, RowOrder::kByPhase)),
                         [](const auto& info) {
                           return mk::name_of(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param)) +
                                  (std::get<2>(info.param) == RowOrder::kByPhase ? "_by_phase" : "_by_expert");
                         });

TEST(MoeCase, EveryInputSetHasItsOwnRouting) {
  const BenchCase c = moe_cases(OpKind::kMoeLayer, {2, 2}, {.tokens = 128})[0];
  std::vector<std::vector<int64_t>> seen;
  for (int set = 0; set < kInputSets; ++set) {
    const tools::MoePairs pairs = routing_of(c, set);
    EXPECT_EQ(pairs.tokens(3), 128);
    EXPECT_EQ(std::ranges::count(seen, pairs.ids(0)), 0);
    seen.push_back(pairs.ids(0));
  }
}

TEST(MoeCase, ATokenCrossesOnceToANodeWhateverItHasThere) {
  const BenchCase c = moe_cases(OpKind::kMoeDispatchGemm, {2, 2}, {.tokens = 256})[0];
  for (int set = 0; set < kInputSets; ++set) {
    const tools::MoePairs pairs = routing_of(c, set);
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_LE(moe_traffic_of(c, pairs, rank).network_bytes, 256 * token_bytes(c));
      EXPECT_GE(moe_traffic_of(c, pairs, rank).network_bytes, moe_traffic_of(c).network_bytes * 9 / 10);
    }
  }
}

TEST(MoeCase, ALayerSendsItsTokensThereAndTheirSumsBack) {
  const BenchCase layer = moe_cases(OpKind::kMoeLayer, {2, 1}, {.tokens = 64})[0];
  const BenchCase dispatch = moe_cases(OpKind::kMoeDispatchGemm, {2, 1}, {.tokens = 64})[0];
  const tools::MoePairs pairs = routing_of(layer, 0);
  const int64_t there = moe_traffic_of(dispatch, pairs, 0).network_bytes;
  const int64_t back = moe_traffic_of(dispatch, pairs, 1).network_bytes;  // sums of what the peer sent
  EXPECT_EQ(moe_traffic_of(layer, pairs, 0).network_bytes, there + back);
}

TEST(MoeCase, ComputeAndCommunicationOfTheListAreOfOneOrderIn2x2) {
  for (const OpKind op : kMoeKinds) {
    const std::vector<BenchCase> cases = moe_cases(op, {2, 2});
    for (const int64_t tokens : {4096, 16384}) {
      const auto found = std::ranges::find(cases, tokens, [](const BenchCase& c) { return c.moe.tokens; });
      ASSERT_NE(found, cases.end());
      EXPECT_GT(balance_of(*found, kRealPace), 0.7);
      EXPECT_LT(balance_of(*found, kRealPace), 1.5);
    }
  }
}

TEST(MoeCase, EveryOneOfTheListIsAllowedOnAGpu) {
  for (const WorldShape& world : kMoeWorlds) {
    for (const BenchCase& c : moe_cases(OpKind::kMoeLayer, world)) {
      const moe::LayerProblem problem{
          world,
          {c.k, c.n, c.moe.experts, c.moe.topk, c.moe.tokens, c.moe.tokens * c.moe.topk * world.size()},
          c.dtype};
      EXPECT_NO_THROW(moe::check_layer(problem, DeviceKind::kCuda));
      EXPECT_EQ(c.m, c.moe.tokens * c.moe.topk);
    }
  }
}

// Each block that computes has a worker that dispatches; those stay.
TEST(PacedSplit, TheNicTakesRoomOfTheWorkersThatSend) {
  const auto& names = moe::Layout::kRoles;
  const Roster chosen{{32, Seating::kInside}, {8}, {32}};
  const Roster fewer = with_room_for_nic(names, chosen, "");
  EXPECT_EQ(fewer.count(moe::Layout::kSend), 4);
  EXPECT_EQ(fewer.num_compute(), 32);
  const Roster summing = with_room_for_nic(names, chosen, "send");
  EXPECT_EQ(summing.count(moe::Layout::kSend), 12);
  EXPECT_EQ(summing.num_compute(), 31);
  for (const Roster& roles : {fewer, summing}) {
    EXPECT_TRUE(leaves_buffers(roles.num_outside()));
    EXPECT_EQ(roles.count(moe::Layout::kDispatch), roles.num_compute());
  }
}

TEST(MoeCase, WhatTheCallerNamesIsTaken) {
  const MoeWish wish{.tokens = 7, .hidden = 64, .inter = 48, .experts = 12, .topk = 3};
  const std::vector<BenchCase> cases = moe_cases(OpKind::kMoeLayer, {2, 2}, wish);
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].moe.tokens, 7);
  EXPECT_EQ(cases[0].k, 64);
  EXPECT_EQ(cases[0].n, 48);
  EXPECT_EQ(cases[0].moe.experts, 12);
  EXPECT_EQ(cases[0].moe.topk, 3);
  EXPECT_GT(moe_cases(OpKind::kMoeLayer, {2, 2}, {.hidden = 64}).size(), 8u);
}

}  // namespace
}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// bench/moe_tables.h — which rows a host-driven mixture of experts moves, multiplies and sums: tables made beforehand.
//
// A rank that brings a token sends it to its rail peer in each other node that has an expert of it.  The token's own
// rank, or that peer, delivers a row of it to each expert in the node.  Results come back to the rank that delivered
// the row; it sums those of a token, and what it summed for a rail peer crosses back.
//
// Rows are computed in phases: first those of the node's own tokens, then those that crossed, in chunks of their ranks'
// tokens.  A world of one node has a phase for each chunk of its tokens.
//
// Plain host code: addresses are only added to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/bench_case.h"
#include "bench/cut.h"
#include "tools/moe_pairs.h"

namespace mk::bench {

// A row that is copied.
struct RowMove {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
};

// A row that is a sum of weighted rows: terms [first, first + count).
struct RowSum {
  std::byte* to = nullptr;
  uint32_t first = 0;
  uint32_t count = 0;
};
struct RowTerm {
  const std::byte* row = nullptr;
  float weight = 1;
};

// Rows of one expert that are multiplied at once.
struct RowGroup {
  int expert = 0;     // of the rank
  int64_t a_row = 0;  // of the rank's rows
  int64_t c_row = 0;  // where its results go
  int64_t count = 0;
};

// Lists one after the other.
template <class T>
struct Lists {
  std::vector<T> all;
  std::vector<Range> parts;

  Range end_part(int64_t first) {
    parts.push_back({first, std::ssize(all) - first});
    return parts.back();
  }
};

// Where the memory of a rank begins; rows of a token's size each.  What a dispatch alone does not use may be null.
struct MoeMemory {
  const std::byte* x = nullptr;        // [tokens]
  std::byte* outgoing = nullptr;       // [node, tokens]: those that cross to that node, without gaps
  std::byte* incoming = nullptr;       // [node, tokens]: the same, of the rail peer of that node
  std::byte* rows = nullptr;           // [rows]: the left operand
  const std::byte* results = nullptr;  // [rows]: of the second product
  std::byte* returned = nullptr;       // [returned_rows]: results of peers of the node
  std::byte* sums_out = nullptr;       // [node, tokens]: as incoming
  std::byte* sums_in = nullptr;        // [node, tokens]: as outgoing
  std::byte* out = nullptr;            // [tokens]
};

// Results that a rank gets from peers of its node.
int64_t returned_rows(const WorldShape& world, const tools::MoePairs& pairs, int rank);

enum class RowOrder {
  kByExpert,  // all rows of an expert lie together
  kByPhase,   // all rows of a phase do, and in it those of an expert
};

class MoeTables {
 public:
  // weights[rank] has one for each pair; empty: a dispatch, of which nothing comes back.
  MoeTables(const BenchCase& c, const tools::MoePairs& pairs, const std::vector<std::vector<float>>& weights,
            const std::vector<MoeMemory>& memory, int num_chunks, RowOrder order);

  struct Rank {
    Lists<RowMove> pack;                       // [chunk]: x → outgoing
    std::vector<std::vector<Range>> crossing;  // [node][chunk] of outgoing, of the rail peer's incoming, and of sums
    Lists<RowMove> spread;                     // [own phase]: x → rows, here and at peers of the node
    std::vector<int64_t> spread_to_peers;      // of those, the ones that go to peers
    Lists<RowMove> forward;                    // [chunk · nodes + node]: incoming → rows, here and at peers
    std::vector<int64_t> forwarded_to_peers;
    std::vector<Range> rows;                         // [phase], kByPhase only
    std::vector<std::vector<RowGroup>> groups;       // [phase], or one for all if kByExpert
    std::vector<std::vector<tools::MoePair>> order;  // [expert of the rank]: rows of y
    int64_t num_rows = 0;

    Lists<RowMove> give_back;  // [phase]: results → returned, at peers of the node
    std::vector<RowTerm> terms;
    Lists<RowSum> for_rails;  // [chunk · nodes + node] → sums_out
    Lists<RowSum> own;        // [chunk] → out
  };

  int num_chunks() const { return cut_.count(); }
  int own_phases() const { return world_.nodes == 1 ? num_chunks() : 1; }
  int num_phases() const { return world_.nodes == 1 ? num_chunks() : 1 + num_chunks(); }
  // In which own tokens of a chunk are, and those of it that crossed.
  int own_phase(int chunk) const { return world_.nodes == 1 ? chunk : 0; }
  int crossed_phase(int chunk) const { return 1 + chunk; }

  size_t num_ranks() const { return ranks_.size(); }
  const Rank& rank(int number) const { return ranks_[number]; }

 private:
  // Where a pair's row is among the rows of its expert's rank, and who has its result.
  struct Place {
    int64_t row = 0;
    const std::byte* result = nullptr;
  };

  int chunk_of(int64_t token) const { return static_cast<int>(token / cut_.rows(0).count); }
  int phase_of(int from, int to, int64_t token) const;
  int expert_rank(int64_t id) const { return static_cast<int>(id / local_experts_); }
  // Of a list by node: row `index` of that node's.
  std::byte* by_node(std::byte* memory, int node, int64_t index) const;
  int deliverer(int from, int to) const { return world_.rank_at(world_.node_of(to), world_.local_of(from)); }

  void place_rows(const tools::MoePairs& pairs, RowOrder order);
  void list_crossing(const tools::MoePairs& pairs);
  void list_deliveries(const tools::MoePairs& pairs);
  void list_returns(const tools::MoePairs& pairs);
  void list_sums(const tools::MoePairs& pairs, const std::vector<std::vector<float>>& weights);

  WorldShape world_;
  int64_t row_bytes_;
  int64_t tokens_;
  int topk_;
  int local_experts_;
  bool goes_back_;
  Cut cut_;
  std::vector<MoeMemory> memory_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<Place>> places_;                  // [rank][pair]
  std::vector<std::vector<std::vector<int64_t>>> crossed_;  // [rank][node][token]: its index there, or -1
};

}  // namespace mk::bench

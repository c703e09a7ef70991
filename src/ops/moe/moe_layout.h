// SPDX-License-Identifier: MIT
// ops/moe/moe_layout.h — how a mixture of experts is cut: where counts, lists and rows lie, and its signals.
//
// A pair is a token and one of its slots: one row for one expert.  Experts are numbered through; expert e lives on rank
// e / local_experts().  The rows of a rank are grouped by expert, inside a group by the token's rank, then by token and
// slot.  So every row's place follows from the counts of all ranks, and no row is moved twice inside a node.
//
//   slice    tokens whose pairs are counted and listed by one worker at a time
//   chunk    tokens that cross to another node in one put
//   bundle   rows of one expert that are delivered together, and told of by one add; never across two blocks
//   block    rows of one expert as high as a tile
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/macros.h"
#include "base/math.h"
#include "core/fault.h"
#include "core/roles.h"
#include "core/schedule.h"
#include "core/tile.h"
#include "core/window.h"
#include "core/world_shape.h"

namespace mk::moe {

// A pair in a list, and the origin of a row.
struct Route {
  uint32_t row = 0;  // of what the row is copied from: the token at its own rank, or its place among those that crossed
  uint32_t rank = 0;  // of the token
  uint32_t pair = 0;  // token · topk + slot
  float weight = 0;
};
static_assert(sizeof(Route) == 16, "what the bulk copy engine copies");

// Inputs of a launch.
constexpr uint32_t kTokensInput = kInputWindow;       // [tokens] rows
constexpr uint32_t kIdsInput = kInputWindow + 1;      // [tokens][topk]
constexpr uint32_t kWeightsInput = kInputWindow + 2;  // [tokens][topk] fp32, may be null: ones
constexpr uint32_t kMoreInput = kInputWindow + 3;     // [tokens] rows that travel along, where a token has two

// Windows.  Other nodes have slots: see slot_of.
constexpr uint32_t kCountsWindow = kFirstOperatorWindow;         // [2][rank], by the launch's parity: its Counts
constexpr uint32_t kHistogramWindow = kFirstOperatorWindow + 1;  // [slice][2][expert]
constexpr uint32_t kListWindow = kFirstOperatorWindow + 2;       // [pair] Routes, expert after expert
constexpr uint32_t kCrossingWindow = kFirstOperatorWindow + 3;   // [other node][] tokens that cross, in their order
constexpr uint32_t kCrossedWindow = kFirstOperatorWindow + 4;    // [other node][token] where it is among those
constexpr uint32_t kOutgoingWindow = kFirstOperatorWindow + 5;   // [other node][][part] their rows
constexpr uint32_t kListsInWindow = kFirstOperatorWindow + 6;    // [other node][pair] Routes for this node
constexpr uint32_t kIncomingWindow = kFirstOperatorWindow + 7;   // [other node][][part] rows
constexpr uint32_t kPlanWindow = kFirstOperatorWindow + 8;       // words: see PlanWords
constexpr uint32_t kRowsWindow = kFirstOperatorWindow + 9;       // [part][row] what the experts multiply
constexpr uint32_t kOriginsWindow = kFirstOperatorWindow + 10;   // [row] Routes

constexpr uint64_t kWord = sizeof(uint32_t);

constexpr int kMostGpuExperts = 1024;  // a warp keeps two words for each in its shared memory

struct Layout {
  enum : int { kDispatch, kSend, kCompute };
  static constexpr std::array<RoleName, 3> kRoles = {{{"dispatch", "row"}, {"send", "chunk"}, {"compute", "tile"}}};

  WorldShape world;
  int experts = 1;
  int topk = 1;
  int64_t max_tokens = 1;
  int64_t max_rows = 1;
  int parts = 1;      // rows that travel of a token: one of kTokensInput, and one of kMoreInput if there are two
  int64_t k = 1;      // elements of a part
  int lead_rows = 0;  // before the first row, nobody's: TMA may begin there (RaggedRows) and wants memory
  int64_t n = 1;      // columns of the result
  int element_bytes = 2;
  int tile_m = 1;
  int tile_n = 1;
  int slice_tokens = 1;
  int chunk_rows = 1;
  int bundle_rows = 1;  // divides tile_m, at most kMostValues
  Roster roles;

  MK_HD constexpr int local_experts() const { return experts / world.size(); }
  MK_HD constexpr int node_experts() const { return local_experts() * world.ranks; }
  MK_HD constexpr int rank_of_expert(int expert) const { return expert / local_experts(); }
  MK_HD constexpr int node_of_expert(int expert) const { return expert / node_experts(); }
  MK_HD constexpr int first_expert_of_node(int node) const { return node * node_experts(); }
  MK_HD constexpr int64_t max_pairs() const { return max_tokens * topk; }
  MK_HD constexpr uint64_t row_bytes() const { return static_cast<uint64_t>(k) * element_bytes; }
  MK_HD constexpr int num_slices(int64_t tokens) const {
    return static_cast<int>(ceil_div<int64_t>(tokens, slice_tokens));
  }
  MK_HD constexpr int max_chunks() const { return static_cast<int>(ceil_div<int64_t>(max_tokens, chunk_rows)); }
  // Every expert may end inside a block.
  MK_HD constexpr int max_blocks() const { return static_cast<int>(max_rows / tile_m) + local_experts(); }
  MK_HD constexpr int col_blocks() const { return static_cast<int>(ceil_div<int64_t>(n, tile_n)); }

  // Of another node, as `rank` numbers them.
  MK_HD constexpr int slot_of(int rank, int node) const { return node < world.node_of(rank) ? node : node - 1; }

  // Counts: the words that a rank tells all others.
  //   [experts]     pairs for each expert
  //   [nodes]       tokens that cross to each node
  //   [nodes + 1]   where the pairs for each node begin in its list, and how many pairs there are
  MK_HD constexpr int crossing_word(int node) const { return experts + node; }
  MK_HD constexpr int first_pair_word(int node) const { return experts + world.nodes + node; }
  MK_HD constexpr uint64_t counts_bytes() const {
    return round_up<uint64_t>((experts + 2 * world.nodes + 1) * kWord, 16);
  }
  MK_HD constexpr Place counts_at(int rank, int of, uint64_t epoch, int word = 0) const {
    return {kCountsWindow, rank, (epoch % 2 * world.size() + of) * counts_bytes() + word * kWord};
  }

  // By expert: all pairs, and then those by which a token comes to another node first.  First of the whole rank, then
  // of each slice, where sums over the slices before it take their place.
  MK_HD constexpr uint64_t histogram_bytes() const { return 2 * static_cast<uint64_t>(experts) * kWord; }
  MK_HD constexpr Place totals_at(int rank) const { return {kHistogramWindow, rank, 0}; }
  MK_HD constexpr Place histogram_at(int rank, int slice) const {
    return {kHistogramWindow, rank, (1 + slice) * histogram_bytes()};
  }

  MK_HD constexpr Place list_at(int rank, int64_t index) const {
    return {kListWindow, rank, static_cast<uint64_t>(index) * sizeof(Route)};
  }
  MK_HD constexpr Place list_in_at(int rank, int node, int64_t index) const {
    return {kListsInWindow, rank, static_cast<uint64_t>(slot_of(rank, node) * max_pairs() + index) * sizeof(Route)};
  }
  MK_HD constexpr Place crossing_at(int rank, int node, int64_t index) const {
    return {kCrossingWindow, rank, static_cast<uint64_t>(slot_of(rank, node) * max_tokens + index) * kWord};
  }
  MK_HD constexpr Place crossed_at(int rank, int node, int64_t token) const {
    return {kCrossedWindow, rank, static_cast<uint64_t>(slot_of(rank, node) * max_tokens + token) * kWord};
  }
  MK_HD constexpr uint64_t token_bytes() const { return parts * row_bytes(); }
  MK_HD constexpr Place token_at(int rank, int64_t token, int part) const {
    return {part == 0 ? kTokensInput : kMoreInput, rank, static_cast<uint64_t>(token) * row_bytes()};
  }
  MK_HD constexpr Place outgoing_at(int rank, int node, int64_t index) const {
    return {kOutgoingWindow, rank, static_cast<uint64_t>(slot_of(rank, node) * max_tokens + index) * token_bytes()};
  }
  MK_HD constexpr Place incoming_at(int rank, int node, int64_t index, int part = 0) const {
    return {kIncomingWindow, rank,
            static_cast<uint64_t>(slot_of(rank, node) * max_tokens + index) * token_bytes() + part * row_bytes()};
  }
  MK_HD constexpr Place row_at(int rank, int64_t row, int part = 0) const {
    return {kRowsWindow, rank, static_cast<uint64_t>(lead_rows + part * max_rows + row) * row_bytes()};
  }
  MK_HD constexpr Place origin_at(int rank, int64_t row) const {
    return {kOriginsWindow, rank, static_cast<uint64_t>(row) * sizeof(Route)};
  }

  // PlanWords: what a rank works out from all counts, for itself and for the rows that it delivers in its node.
  //   [4]                               status: not 0 if nobody may move rows; blocks of this rank; 2 words unused
  //   [node_experts][4]                 of each expert of the node: first row, rows, first block, unused
  //   [nodes][node_experts]             bundles of each visit, see visit
  //   [nodes][node_experts][4]          of each visit: first in the list, offset in the expert's rows, rows, unused
  //   [max_blocks][2]                   rows that were ever due in each block of this rank, low word first
  MK_HD constexpr uint64_t status_word() const { return 0; }
  MK_HD constexpr uint64_t blocks_word() const { return 1; }
  MK_HD constexpr uint64_t expert_word(int in_node) const { return 4 + static_cast<uint64_t>(in_node) * 4; }
  MK_HD constexpr uint64_t bundles_word(int step, int visit) const {
    return expert_word(node_experts()) + static_cast<uint64_t>(step) * round_up(node_experts(), 4) + visit;
  }
  MK_HD constexpr uint64_t source_word(int step, int visit) const {
    return bundles_word(world.nodes, 0) + (static_cast<uint64_t>(step) * node_experts() + visit) * 4;
  }
  MK_HD constexpr uint64_t due_word(int block) const {
    return source_word(world.nodes, 0) + static_cast<uint64_t>(block) * 2;
  }
  MK_HD constexpr uint64_t plan_bytes() const { return due_word(max_blocks()) * kWord; }
  MK_HD constexpr Place plan_at(int rank, uint64_t word) const { return {kPlanWindow, rank, word * kWord}; }

  // The order in which a rank delivers: source after source, the own node's first; there the first expert of every rank
  // of the node, then the second of every rank, …
  MK_HD constexpr int source_node_at(int rank, int step) const { return wrap(world.node_of(rank) + step, world.nodes); }
  // As a number in the node.
  MK_HD constexpr int expert_at_visit(int rank, int visit) const {
    const int local = world.local_of(peer_at(world, rank, visit % world.ranks));
    return local * local_experts() + visit / world.ranks;
  }
  MK_HD constexpr int visit_of_expert(int rank, int in_node) const {
    const int local = in_node / local_experts();
    return in_node % local_experts() * world.ranks + wrap(world.local_of(rank) - local, world.ranks);
  }

  // Signals.  counted, stamps, by the launch's parity: a rank's Counts of this launch are here.  histograms, summed,
  // listed: this rank's dispatch workers have counted all slices, summed over them, listed their pairs.  planned: the
  // plan of this launch stands.  arrived: rows that came into a block, over all launches.  list_landed and landed,
  // stamps: what came over the rail from a node.
  MK_HD constexpr uint32_t counted(int rank, uint64_t epoch) const {
    return static_cast<uint32_t>(epoch % 2 * world.size() + rank);
  }
  MK_HD constexpr uint32_t histograms() const { return static_cast<uint32_t>(2 * world.size()); }
  MK_HD constexpr uint32_t summed() const { return histograms() + 1; }
  MK_HD constexpr uint32_t listed() const { return histograms() + 2; }
  MK_HD constexpr uint32_t planned() const { return histograms() + 3; }
  MK_HD constexpr bool is_inner(uint32_t signal) const { return signal >= histograms() && signal <= planned(); }
  MK_HD constexpr uint32_t arrived(int block) const { return planned() + 1 + static_cast<uint32_t>(block); }
  MK_HD constexpr uint32_t list_landed(int node) const { return arrived(max_blocks()) + static_cast<uint32_t>(node); }
  MK_HD constexpr uint32_t landed(int node, int chunk) const {
    return list_landed(world.nodes) + static_cast<uint32_t>(node * max_chunks() + chunk);
  }
  MK_HD constexpr uint32_t num_signals() const { return world.nodes == 1 ? list_landed(0) : landed(world.nodes, 0); }

  // By one rank in one launch: counts, a list and chunks for each other node.
  MK_HD constexpr int64_t most_puts() const { return (world.nodes - 1) * (2 + max_chunks()); }
};

// Why a launch is refused.
enum : uint32_t { kBadId, kTooManyRows };

std::vector<uint64_t> window_bytes(const Layout& layout);
std::string signal_name(const Layout& layout, uint32_t signal);
std::string refusal(const Layout& layout, const FaultRecord& record);

}  // namespace mk::moe

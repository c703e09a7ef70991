// SPDX-License-Identifier: MIT
// ops/moe/moe_layout.h — how a mixture of experts is cut: where counts, lists and rows lie, and its signals.
//
// A pair is a token and one of its slots: one row for one expert.  Experts are numbered through; expert e lives on rank
// e / local_experts().  The rows of a rank are grouped by expert; inside a group tokens of its own node come first,
// then those of other nodes, phase after phase, which is the order in which they arrive; and inside those it is by the
// token's rank, by token and by slot.  So every row's place follows from the counts of all ranks, and no row is moved
// twice inside a node.
//
//   phase    phase_tokens tokens of each rank that follow each other; all of them, in a world of one node
//   slice    tokens of one phase whose pairs are counted and listed by one worker at a time
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
constexpr uint32_t kHistogramWindow = kFirstOperatorWindow + 1;  // [slice][expert, then node]
constexpr uint32_t kListWindow = kFirstOperatorWindow + 2;       // [pair] Routes, expert after expert
constexpr uint32_t kCrossingWindow = kFirstOperatorWindow + 3;   // [other node][] tokens that cross, in their order
constexpr uint32_t kCrossedWindow = kFirstOperatorWindow + 4;    // [other node][token] where it is among those
constexpr uint32_t kOutgoingWindow = kFirstOperatorWindow + 5;   // [other node][][part] their rows
constexpr uint32_t kListsInWindow = kFirstOperatorWindow + 6;    // [other node][pair] Routes for this node
constexpr uint32_t kIncomingWindow = kFirstOperatorWindow + 7;   // [other node][][part] rows
constexpr uint32_t kPlanWindow = kFirstOperatorWindow + 8;       // words: see PlanWords
constexpr uint32_t kRowsWindow = kFirstOperatorWindow + 9;       // [part][row] what the experts multiply
constexpr uint32_t kOriginsWindow = kFirstOperatorWindow + 10;   // [row] Routes
// If pairs may be dropped.
constexpr uint32_t kTalliesWindow = kFirstOperatorWindow + 11;  // [slice][rank][named slot]
constexpr uint32_t kClaimsWindow = kFirstOperatorWindow + 12;   // [2][rank], by the launch's parity: its Claims
constexpr uint32_t kCutsWindow = kFirstOperatorWindow + 13;     // [rank] Cuts
constexpr uint32_t kRoutedWindow = kFirstOperatorWindow + 14;   // [token][named slot] ids as they are in effect
constexpr uint32_t kFirstLayerWindow = kFirstOperatorWindow + 15;

constexpr uint64_t kWord = sizeof(uint32_t);

constexpr int kMostSlots = 64;
constexpr int kMostGpuExperts = 1024;  // a warp keeps two words for each in its shared memory

// Words that workers count slice by slice.  First come those of the whole rank, then those of each slice, where sums
// over the slices before it take their place.
struct Table {
  uint32_t window = 0;
  int words = 0;

  MK_HD constexpr uint64_t bytes() const { return static_cast<uint64_t>(words) * kWord; }
  MK_HD constexpr Place totals_at(int rank) const { return {window, rank, 0}; }
  MK_HD constexpr Place slice_at(int rank, int slice) const { return {window, rank, (1 + slice) * bytes()}; }
};

// Which pairs for a rank are dropped: those of slots behind `slot`, and of that slot all but the first `kept` of the
// rank that has the Cut.
struct RankCut {
  uint32_t slot = 0;
  uint32_t kept = 0;

  // Of the rank's `pairs` of a slot.
  MK_HD constexpr uint32_t dropped(uint32_t of, uint32_t pairs) const {
    return of < slot ? 0 : of == slot ? pairs - kept : pairs;
  }
  // Whether its pair number `place` of a slot is not.
  MK_HD constexpr bool keeps(uint32_t of, uint32_t place) const { return of < slot || (of == slot && place < kept); }
};

// Blocks of an expert: of each eight that follow each other, from `first` on, the first `run`.  A rank's rows fill
// blocks that follow each other, so a part of the blocks that has some of each eight has some of every rank
// that fills eight.
struct BlockRuns {
  static constexpr int kEight = 8;

  int first = 0;
  int count = 0;
  int run = kEight;

  MK_HD constexpr int at(int i) const { return first + i / run * kEight + i % run; }
};

struct Layout {
  enum : int { kDispatch, kSend, kCompute };
  static constexpr std::array<RoleName, 3> kRoles = {{{"dispatch", "row"}, {"send", "chunk"}, {"compute", "tile"}}};

  WorldShape world;
  int experts = 1;
  int topk = 1;
  int shared = 0;      // the last experts of each rank, which all its tokens name in their last slots; callers do not
  bool drops = false;  // pairs that do not fit; else the launch is refused
  int64_t max_tokens = 1;
  int64_t max_rows = 1;
  int parts = 1;      // rows that travel of a token: one of kTokensInput, and one of kMoreInput if there are two
  int64_t k = 1;      // elements of a part
  int lead_rows = 0;  // before the first row, nobody's: TMA may begin there (RaggedRows) and wants memory
  int64_t n = 1;      // columns of the result
  int element_bytes = 2;
  int tile_m = 1;
  int tile_n = 1;
  int phase_tokens = 1;
  int slice_tokens = 1;   // at most phase_tokens
  int early_eighths = 8;  // so many of each eight blocks of own tokens are computed before what crosses, the rest after
  int chunk_rows = 1;
  int bundle_rows = 1;  // divides tile_m, at most kMostValues
  Roster roles;

  // Divisions that workers make all the time, prepared by the host: a GPU divides in software.
  struct Dividers {
    Divider local_experts, named_experts, node_experts, ranks, topk, phase_tokens, tile_m, chunk_rows, batches,
        batches_of_phase;
  };
  Dividers by;

  // After all that comes before is said.
  constexpr void prepare() {
    by = {Divider(local_experts()),
          Divider(local_experts() - shared),
          Divider(node_experts()),
          Divider(world.ranks),
          Divider(topk),
          Divider(phase_tokens),
          Divider(tile_m),
          Divider(chunk_rows),
          Divider(num_batches()),
          Divider(max_of(1, world.nodes - 1))};
  }

  MK_HD constexpr int local_experts() const { return experts / world.size(); }
  MK_HD constexpr int node_experts() const { return local_experts() * world.ranks; }
  MK_HD constexpr int rank_of_expert(int expert) const { return by.local_experts.quotient(expert); }
  MK_HD constexpr int node_of_expert(int expert) const { return by.node_experts.quotient(expert); }
  MK_HD constexpr int node_of(int rank) const { return by.ranks.quotient(rank); }
  MK_HD constexpr int local_of(int rank) const { return rank - node_of(rank) * world.ranks; }
  // What callers name: ids are below num_ids().
  MK_HD constexpr int named_slots() const { return topk - shared; }
  MK_HD constexpr int num_ids() const { return experts - shared * world.size(); }
  MK_HD constexpr int expert_of_id(int64_t id) const {  // -1: none
    if (id < 0 || id >= num_ids()) return -1;
    return static_cast<int>(id) + by.named_experts.quotient(static_cast<int>(id)) * shared;
  }
  MK_HD constexpr int shared_expert(int rank, int slot) const { return (rank + 1) * local_experts() - topk + slot; }
  MK_HD constexpr int first_expert_of_node(int node) const { return node * node_experts(); }
  MK_HD constexpr int64_t max_pairs() const { return max_tokens * topk; }
  MK_HD constexpr uint64_t row_bytes() const { return static_cast<uint64_t>(k) * element_bytes; }
  MK_HD constexpr int num_phases() const { return static_cast<int>(ceil_div<int64_t>(max_tokens, phase_tokens)); }
  MK_HD constexpr int phase_of_token(int64_t token) const { return by.phase_tokens.quotient(static_cast<int>(token)); }
  MK_HD constexpr int slices_per_phase() const { return ceil_div(phase_tokens, slice_tokens); }
  MK_HD constexpr int num_slices(int64_t tokens) const {
    const int whole = phase_of_token(tokens);
    const int rest = static_cast<int>(tokens) - whole * phase_tokens;
    return whole * slices_per_phase() + ceil_div(rest, slice_tokens);
  }
  MK_HD constexpr Range tokens_of_slice(int64_t tokens, int slice) const {
    const int phase = slice / slices_per_phase();
    const Range of_phase = block_range(tokens, phase_tokens, phase);
    const Range in_phase = block_range(of_phase.count, slice_tokens, slice - phase * slices_per_phase());
    return {of_phase.first + in_phase.first, in_phase.count};
  }
  MK_HD constexpr int max_chunks() const { return static_cast<int>(ceil_div<int64_t>(max_tokens, chunk_rows)); }
  // Every expert may end inside a block.
  MK_HD constexpr int max_blocks() const { return static_cast<int>(max_rows / tile_m) + local_experts(); }
  MK_HD constexpr int col_blocks() const { return static_cast<int>(ceil_div<int64_t>(n, tile_n)); }

  // The order of tiles: passes over the experts of a rank.  The first has blocks of tokens of the own node, as many as
  // early_eighths says, or all in a world of one node; then there is one for each phase, with the blocks that are
  // complete when it has arrived; the last has what the first left out.  Of an expert with so many rows, `own` of which
  // are of the own node; rows up to the pass's phase, and to the one before, end at `end` and `end_before`.
  MK_HD constexpr int num_passes() const { return world.nodes == 1 ? 1 : num_phases() + 2; }
  MK_HD constexpr int num_segments() const { return num_passes() * local_experts(); }  // a pass over an expert is one
  MK_HD constexpr int phase_of_pass(int pass) const { return pass - 1; }
  MK_HD constexpr BlockRuns blocks_of_pass(int pass, uint32_t rows, uint32_t own, uint32_t end_before,
                                           uint32_t end) const {
    const int blocks = blocks_until(rows + tile_m - 1);
    const int own_blocks = own_blocks_of(rows, own);
    if (pass == 0 && !is_split()) return {0, own_blocks};
    const int eight = BlockRuns::kEight;
    const int early = own_blocks / eight * early_eighths + min_of(own_blocks % eight, early_eighths);
    if (pass == 0) return {0, early, max_of(1, early_eighths)};
    const int phase = phase_of_pass(pass);
    if (phase == num_phases()) {
      return is_split() ? BlockRuns{early_eighths, own_blocks - early, eight - early_eighths} : BlockRuns{};
    }
    const int first = phase == 0 ? own_blocks : max_of(own_blocks, blocks_until(end_before));
    const int last = phase == last_phase() ? blocks : max_of(own_blocks, blocks_until(end));
    return {first, last - first};
  }
  MK_HD constexpr int blocks_until(uint32_t rows) const { return by.tile_m.quotient(static_cast<int>(rows)); }
  // Those that have rows of own tokens only.
  MK_HD constexpr int own_blocks_of(uint32_t rows, uint32_t own) const {
    return own == rows ? blocks_until(rows + tile_m - 1) : blocks_until(own);
  }
  // Whether some own blocks wait until what crosses is computed, and whether such a block does.
  MK_HD constexpr bool is_split() const { return world.nodes > 1 && early_eighths < BlockRuns::kEight; }
  MK_HD constexpr bool is_late(int block, int own_blocks) const {
    return block < own_blocks && block % BlockRuns::kEight >= early_eighths;
  }

  // Of another node, as `rank` numbers them.
  MK_HD constexpr int slot_of(int rank, int node) const { return node < world.node_of(rank) ? node : node - 1; }

  // Batches: tokens that a rank delivers together.  Batch 0 has its own; the others have those of its rail peers, phase
  // by phase, and in a phase node by node.
  MK_HD constexpr int num_batches() const { return 1 + num_phases() * (world.nodes - 1); }
  MK_HD constexpr int batch_of(int phase, int step) const {
    return step == 0 ? 0 : 1 + phase * (world.nodes - 1) + step - 1;
  }
  MK_HD constexpr int phase_of_batch(int batch) const {
    return batch == 0 ? 0 : by.batches_of_phase.quotient(batch - 1);
  }
  MK_HD constexpr int step_of_batch(int batch) const {
    return batch == 0 ? 0 : batch - phase_of_batch(batch) * (world.nodes - 1);
  }
  // Of what the rank of a node delivers for tokens of another.
  MK_HD constexpr int step_from(int node, int source) const {
    return source < node ? source - node + world.nodes : source - node;
  }

  // Of an expert of `node`: rows of `rank` up to the end of this phase lie before those that `source` brings in
  // `phase`; -1: none do.
  MK_HD constexpr int phase_before(int node, int rank, int source, int phase) const {
    const bool is_from_node = node_of(source) == node;
    if (node_of(rank) == node) return !is_from_node || rank < source ? last_phase() : -1;
    if (is_from_node) return -1;
    return rank < source ? phase : phase - 1;
  }

  // Counts: the words that a rank tells all others.
  //   [phases][histogram_words()]   up to the end of each phase: pairs for each expert, tokens that cross to each node
  //   [nodes + 1]                   where the pairs for each node begin in its list, and how many pairs there are
  MK_HD constexpr int histogram_words() const { return experts + world.nodes; }
  MK_HD constexpr int last_phase() const { return num_phases() - 1; }
  MK_HD constexpr int pairs_word(int phase, int expert) const { return phase * histogram_words() + expert; }
  MK_HD constexpr int crossing_word(int phase, int node) const { return pairs_word(phase, experts) + node; }
  MK_HD constexpr int first_pair_word(int node) const { return pairs_word(num_phases(), 0) + node; }
  MK_HD constexpr uint64_t counts_bytes() const {
    return round_up<uint64_t>(first_pair_word(world.nodes + 1) * kWord, 16);
  }
  MK_HD constexpr Place counts_at(int rank, int of, uint64_t epoch, int word = 0) const {
    return {kCountsWindow, rank, (epoch % 2 * world.size() + of) * counts_bytes() + word * kWord};
  }

  // Pairs by expert, and tokens that cross by node.
  MK_HD constexpr Table histogram() const { return {kHistogramWindow, histogram_words()}; }

  // If pairs may be dropped.  Claims: the words that a rank tells all others before anything is routed.
  //   [ranks][named_slots]   its pairs for each rank
  //   [1]                    its tokens
  MK_HD constexpr int claim_word(int to, int slot) const { return to * named_slots() + slot; }
  MK_HD constexpr int tokens_word() const { return claim_word(world.size(), 0); }
  MK_HD constexpr Table tallies() const { return {kTalliesWindow, tokens_word()}; }
  MK_HD constexpr uint64_t claims_bytes() const { return round_up<uint64_t>((tokens_word() + 1) * kWord, 16); }
  MK_HD constexpr Place claims_at(int rank, int of, uint64_t epoch) const {
    return {kClaimsWindow, rank, (epoch % 2 * world.size() + of) * claims_bytes()};
  }
  MK_HD constexpr Place cut_at(int rank, int to) const { return {kCutsWindow, rank, to * sizeof(RankCut)}; }
  MK_HD constexpr Place routed_at(int rank, int64_t token) const {
    return {kRoutedWindow, rank, static_cast<uint64_t>(token * named_slots()) * kWord};
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

  // PlanWords: what a rank works out from all counts, for itself and for the rows that it delivers in its node.  The
  // first dispatch workers make it, each the words of some batches, and the first of them also all others.
  //   [4]                               status: not 0 if nobody may move rows; 3 words unused
  //   [node_experts][4]                 of each expert of the node: first row, rows, first block, rows of own tokens
  //   [phases][local_experts]           of each expert of this rank: where rows up to each phase end, from its first on
  //   [batches][node_experts]           bundles of each visit, see visit
  //   [batches][node_experts][4]        of each visit: first in the list, offset in the expert's rows, rows; and how
  //                                     many blocks of the expert have rows of own tokens only
  //   [max_blocks][2]                   rows that were ever due in each block of this rank, low word first
  MK_HD constexpr int num_planners() const { return min_of(roles.count(kDispatch), num_batches()); }
  MK_HD constexpr uint64_t status_word() const { return 0; }
  MK_HD constexpr uint64_t expert_word(int in_node) const { return 4 + static_cast<uint64_t>(in_node) * 4; }
  MK_HD constexpr uint64_t end_word(int phase, int local) const {
    return expert_word(node_experts()) + static_cast<uint64_t>(phase) * local_experts() + local;
  }
  MK_HD constexpr uint64_t bundles_word(int batch, int visit) const {
    return round_up<uint64_t>(end_word(num_phases(), 0), 4) +
           static_cast<uint64_t>(batch) * round_up(node_experts(), 4) + visit;
  }
  MK_HD constexpr uint64_t source_word(int batch, int visit) const {
    return bundles_word(num_batches(), 0) + (static_cast<uint64_t>(batch) * node_experts() + visit) * 4;
  }
  MK_HD constexpr uint64_t due_word(int block) const {
    return source_word(num_batches(), 0) + static_cast<uint64_t>(block) * 2;
  }
  MK_HD constexpr uint64_t plan_bytes() const { return due_word(max_blocks()) * kWord; }
  MK_HD constexpr Place plan_at(int rank, uint64_t word) const { return {kPlanWindow, rank, word * kWord}; }

  // The order in which a rank delivers: batch after batch, but own rows that are computed last come after half of the
  // phases; in a batch the first expert of every rank of the node, then the second of every rank, …
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
  // stamps: what came over the rail from a node.  If pairs may be dropped: tallied, tallies_summed, cut: this rank's
  // dispatch workers have counted claims, summed them, made the cuts; claimed, stamps, by the launch's parity: a rank's
  // Claims are here.
  MK_HD constexpr uint32_t counted(int rank, uint64_t epoch) const {
    return static_cast<uint32_t>(epoch % 2 * world.size() + rank);
  }
  MK_HD constexpr uint32_t histograms() const { return static_cast<uint32_t>(2 * world.size()); }
  MK_HD constexpr uint32_t summed() const { return histograms() + 1; }
  MK_HD constexpr uint32_t listed() const { return histograms() + 2; }
  MK_HD constexpr uint32_t planned() const { return histograms() + 3; }
  MK_HD constexpr bool is_inner(uint32_t signal) const {
    return (signal >= histograms() && signal <= planned()) || (drops && signal >= tallied() && signal <= cut());
  }
  MK_HD constexpr uint32_t arrived(int block) const { return planned() + 1 + static_cast<uint32_t>(block); }
  MK_HD constexpr uint32_t list_landed(int node) const { return arrived(max_blocks()) + static_cast<uint32_t>(node); }
  MK_HD constexpr uint32_t landed(int node, int chunk) const {
    return list_landed(world.nodes) + static_cast<uint32_t>(node * max_chunks() + chunk);
  }
  MK_HD constexpr uint32_t tallied() const { return world.nodes == 1 ? list_landed(0) : landed(world.nodes, 0); }
  MK_HD constexpr uint32_t tallies_summed() const { return tallied() + 1; }
  MK_HD constexpr uint32_t cut() const { return tallied() + 2; }
  MK_HD constexpr uint32_t claimed(int rank, uint64_t epoch) const {
    return cut() + 1 + static_cast<uint32_t>(epoch % 2 * world.size() + rank);
  }
  MK_HD constexpr uint32_t num_signals() const { return drops ? claimed(world.size(), 1) : tallied(); }

  // By one rank in one launch: counts, a list and chunks for each other node, and claims if there are any.
  MK_HD constexpr int64_t most_puts() const { return (world.nodes - 1) * (2 + (drops ? 1 : 0) + max_chunks()); }
};

// Why a launch is refused.
enum : uint32_t { kBadId, kTooManyRows };

std::vector<uint64_t> window_bytes(const Layout& layout);
std::string signal_name(const Layout& layout, uint32_t signal);
std::string refusal(const Layout& layout, const FaultRecord& record);

}  // namespace mk::moe

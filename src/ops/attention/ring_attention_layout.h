// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_layout.h — how attention over many ranks is cut, and where its data lies.
//
// Layout is plain data and pure functions: protocol, kernels, ledger and tests all read it.  A plan has one; a launch
// has a copy with the strides of its rank's own keys and values.
//
//   tile    rows of one piece, batch and query head: what a compute worker has in hand
//   part    rows of one piece and batch with all heads, of keys and of values: what a worker moves at once
//   chunk   parts that follow each other, told of by one signal
//   step    a rank takes the keys of one source rank after the other: source_at (core/schedule.h), its own first
//   slot    room for the keys and values of one rank.  What node peers bring goes to local slots, what the rail brings
//           to rail slots, each used in turn.
//
// Of a piece a rank sees nothing, all, or with a mask the last rows: its *need*.  If sequences are packed it may also
// be the first rows, of a sequence that goes on behind the rank's own.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/roles.h"
#include "core/schedule.h"
#include "core/tile.h"
#include "core/window.h"
#include "core/world_shape.h"
#include "ops/attention/attention_positions.h"
#include "ops/attention/attention_spans.h"
#include "ops/attention/head_strides.h"
#include "ops/attention/kept_layout.h"
#include "ops/attention/ring_attention_problem.h"

namespace mk::attention {

constexpr uint32_t kQueriesInput = kInputWindow;
constexpr uint32_t kKeysInput = kInputWindow + 1;
constexpr uint32_t kValuesInput = kInputWindow + 2;

constexpr uint32_t kStagedWindow = kFirstOperatorWindow;     // this rank's keys and values, for the network
constexpr uint32_t kRailWindow = kFirstOperatorWindow + 1;   // rail slots
constexpr uint32_t kLocalWindow = kFirstOperatorWindow + 2;  // local slots
constexpr uint32_t kStateWindow = kFirstOperatorWindow + 3;  // results of tiles between steps, in fp32

// Keys or values.
enum class Half { kKeys, kValues };

// What does not follow the other in a batch of a rank's own keys or values.
enum class Gaps { kNone, kBetweenRows, kBetweenHeads };

// Rows of queries: `rows` are rows of the rank, the first of them at `position`.
struct QueryTile {
  int64_t number = 0;  // in the order of visit of its rank, 0 …
  int batch = 0;
  int head = 0;
  Range rows;
  int64_t position = 0;

  MK_HD constexpr Range positions() const { return {position, rows.count}; }
};

// Keys that a tile sees of a piece: `rows` are rows of their rank, the first of them at `position`.
struct Segment {
  int piece = 0;  // of its rank: 0 or 1
  Range rows;
  int64_t position = 0;
};

struct Part {
  int batch = 0;
  int piece = 0;
  int index = 0;  // in the piece
};

struct Layout {
  enum : int { kIntra, kSend, kKeep, kCompute };
  static constexpr std::array<RoleName, 4> kRoles = {
      {{"intra", "chunk"}, {"send", "chunk"}, {"keep", "step"}, {"compute", "tile"}}};

  WorldShape world;
  SeenKeys mask;
  SequenceOrder order = SequenceOrder::kContiguous;
  Spans spans;  // of packed sequences
  int batch = 1;
  int heads = 1;
  int kv_heads = 1;
  int dim = 1;
  int element_bytes = 2;
  int64_t rows = 0;      // of a rank and batch
  int piece_length = 0;  // in rows
  int tile_rows = 1;
  int tiles_of_piece = 1;      // if nothing is packed
  int most_tiles_of_head = 1;  // of any rank
  int part_rows = 1;
  int parts_of_piece = 1;
  int parts_of_chunk = 1;
  int chunks_of_piece = 1;
  int heads_together = 1;  // whose tiles are visited side by side
  int local_slots = 0;
  int rail_slots = 0;
  HeadStrides own_keys;  // of the launch
  HeadStrides own_values;
  Roster roles;

  // ---- positions ----

  MK_HD constexpr int pieces() const { return pieces_of(order); }
  MK_HD constexpr int64_t piece_rows() const { return piece_length; }
  MK_HD constexpr Range positions_of(int rank, int piece) const {
    return {piece_of(order, world.size(), rank, piece) * piece_rows(), piece_rows()};
  }
  // Of `keys`, those that at least one of `queries` sees.
  MK_HD constexpr Range seen(const Range& queries, const Range& keys) const {
    return mask.seen(queries, spans.in_sequences_of(queries, keys));
  }
  // Rows of a piece of `source` that queries of `rank` see, as positions.  With a full mask and two pieces packed
  // queries may see the first of them and the last: then all are sent.
  MK_HD constexpr Range need(int rank, int source, int piece) const {
    const Range keys = positions_of(source, piece);
    Range all{keys.first + keys.count, 0};
    MK_LOOP
    for (int i = 0; i < pieces(); ++i) all = around(all, seen(positions_of(rank, i), keys));
    return may_need_too_much() && all.count > 0 ? keys : all;
  }
  MK_HD constexpr bool may_need_too_much() const {
    return spans.are_packed() && mask.kind == MaskKind::kFull && pieces() > 1;
  }
  // The same of all ranks of a node together.
  MK_HD constexpr Range need_of_node(int node, int source, int piece) const {
    Range all = need(world.rank_at(node, 0), source, piece);
    MK_LOOP
    for (int local = 1; local < world.ranks; ++local) {
      all = around(all, need(world.rank_at(node, local), source, piece));
    }
    return all;
  }

  // The same of all nodes but the rank's own, of its keys.
  MK_HD constexpr Range need_of_others(int rank, int piece) const {
    Range all{};
    MK_LOOP
    for (int step = 1; step < world.nodes; ++step) {
      all = around(all, need_of_node(world.node_of(rail_peer_at(world, rank, step)), rank, piece));
    }
    return all;
  }

  // ---- steps and slots ----

  MK_HD constexpr int num_steps() const { return world.size(); }
  MK_HD constexpr bool is_rail_step(int step) const { return step > 0 && step % world.ranks == 0; }
  // What comes to `rank` of a piece at a step.  A rail brings what any rank of the node needs.
  MK_HD constexpr Range brought(int rank, int step, int piece) const {
    const int source = source_at(world, rank, step);
    return is_rail_step(step) ? need_of_node(world.node_of(rank), source, piece) : need(rank, source, piece);
  }
  MK_HD constexpr bool brings(int rank, int step) const {
    MK_LOOP
    for (int piece = 0; piece < pieces(); ++piece) {
      if (brought(rank, step, piece).count > 0) return true;
    }
    return false;
  }
  // The step at which `rank` takes what its rail peer in `node` has.
  MK_HD constexpr int rail_step(int rank, int node) const {
    return world.ranks * wrap(node - world.node_of(rank), world.nodes);
  }
  // Of the slots of the step's kind.
  MK_HD constexpr int slot_of(int step) const {
    const int before = step / world.ranks;  // whole nodes
    if (is_rail_step(step)) return (before - 1) % rail_slots;
    return (step - before - 1) % local_slots;
  }
  // The step that uses the same slot next, with something in it; num_steps() if there is none.
  MK_HD constexpr int next_use(int rank, int step) const {
    MK_LOOP
    for (int next = step + 1; next < num_steps(); ++next) {
      if (is_rail_step(next) == is_rail_step(step) && slot_of(next) == slot_of(step) && brings(rank, next)) return next;
    }
    return num_steps();
  }
  // Whether the step is the first in the launch that uses its slot.
  MK_HD constexpr bool is_first_use(int rank, int step) const {
    MK_LOOP
    for (int before = step - 1; before > 0; --before) {
      if (is_rail_step(before) == is_rail_step(step) && slot_of(before) == slot_of(step) && brings(rank, before)) {
        return false;
      }
    }
    return true;
  }
  // Who writes into the slot of a step.
  MK_HD constexpr int writer_at(int rank, int step) const {
    const int source = source_at(world, rank, step);
    if (is_rail_step(step)) return source;
    return world.rank_at(world.node_of(rank), world.local_of(source));
  }

  // ---- places ----

  MK_HD constexpr int64_t key_row_bytes() const { return int64_t{kv_heads} * dim * element_bytes; }
  MK_HD constexpr int64_t half_bytes() const { return batch * rows * key_row_bytes(); }
  MK_HD constexpr int64_t slot_bytes() const { return 2 * half_bytes(); }
  // A row of all key heads, inside its keys or values.
  MK_HD constexpr int64_t row_offset(int of_batch, int64_t row) const {
    return (of_batch * rows + row) * key_row_bytes();
  }
  MK_HD constexpr const HeadStrides& own_strides(Half half) const {
    return half == Half::kKeys ? own_keys : own_values;
  }
  MK_HD constexpr Place input_at(Half half, int rank, int of_batch, int64_t row, int kv_head = 0) const {
    const int64_t at = offset_in(own_strides(half), of_batch, row, kv_head);
    return {half == Half::kKeys ? kKeysInput : kValuesInput, rank, static_cast<uint64_t>(at * element_bytes)};
  }
  MK_HD constexpr Gaps gaps_of(Half half) const {
    const HeadStrides& of = own_strides(half);
    if (of.head != dim) return Gaps::kBetweenHeads;
    return of.row == int64_t{kv_heads} * dim ? Gaps::kNone : Gaps::kBetweenRows;
  }
  MK_HD constexpr Place staged_at(Half half, int rank, int of_batch, int64_t row) const {
    return in_slot(kStagedWindow, 0, half, rank, of_batch, row);
  }
  // Where a rank has what it takes at a step; its own are its inputs.
  MK_HD constexpr Place keys_at(Half half, int rank, int step, int of_batch, int64_t row) const {
    if (step == 0) return input_at(half, rank, of_batch, row);
    return in_slot(is_rail_step(step) ? kRailWindow : kLocalWindow, slot_of(step), half, rank, of_batch, row);
  }
  // Inside a batch of it.
  MK_HD constexpr HeadStrides key_strides(Half half, int step) const {
    return step == 0 ? own_strides(half) : without_gaps(rows, kv_heads, dim);
  }
  // What a tile keeps between steps: results, and for each row a maximum and a sum; on a GPU each of the four threads
  // that share a row has its own.
  static constexpr int kWordsOfRow = 8;
  MK_HD constexpr int64_t tile_state_bytes() const { return int64_t{tile_rows} * (dim + kWordsOfRow) * 4; }
  MK_HD constexpr Place state_at(int rank, const QueryTile& tile) const {
    return {kStateWindow, rank, static_cast<uint64_t>(tile.number * tile_state_bytes())};
  }

  // ---- tiles ----

  // Of a piece; if sequences are packed its last tile need not be its shortest.
  MK_HD constexpr int tiles_in(int rank, int piece) const {
    return spans.are_packed() ? spans.tiles_in(kQueryCut, positions_of(rank, piece)) : tiles_of_piece;
  }
  MK_HD constexpr Range tile_positions(int rank, int piece, int index) const {
    const Range all = positions_of(rank, piece);
    if (spans.are_packed()) return spans.tile_in(kQueryCut, all, index);
    const Range within = block_range(piece_rows(), tile_rows, index);
    return {all.first + within.first, within.count};
  }
  MK_HD constexpr int tiles_of_head(int rank) const {
    return tiles_in(rank, 0) + (pieces() > 1 ? tiles_in(rank, 1) : 0);
  }
  MK_HD constexpr int64_t num_tiles(int rank) const { return int64_t{batch} * heads * tiles_of_head(rank); }
  MK_HD constexpr int64_t most_tiles() const { return int64_t{batch} * heads * most_tiles_of_head; }
  // Row of a rank that has a position of its piece.
  MK_HD constexpr int64_t row_of(int rank, int piece, int64_t position) const {
    return piece * piece_rows() + position - positions_of(rank, piece).first;
  }
  // Groups of heads, one after the other; in a group the last rows first, which see most keys if there is a mask.
  MK_HD constexpr QueryTile tile_at(int rank, int64_t number) const {
    const int per_head = tiles_of_head(rank);
    const int group = static_cast<int>(number) / (heads_together * per_head);
    const int inside = static_cast<int>(number) - group * heads_together * per_head;
    const int together = min_of(heads_together, batch * heads - group * heads_together);
    const int head = group * heads_together + inside % together;
    const int block = per_head - 1 - inside / together;
    const int of_first = tiles_in(rank, 0);
    const int piece = block < of_first ? 0 : 1;
    const Range positions = tile_positions(rank, piece, block - piece * of_first);
    return {
        number, head / heads, head % heads, {row_of(rank, piece, positions.first), positions.count}, positions.first};
  }
  // What a tile of `rank` sees of a piece of `source`.
  MK_HD constexpr Segment segment(const QueryTile& tile, int source, int piece) const {
    const Range keys = seen(tile.positions(), positions_of(source, piece));
    return {piece, {row_of(source, piece, keys.first), keys.count}, keys.first};
  }
  MK_HD constexpr bool sees(const QueryTile& tile, int source) const {
    MK_LOOP
    for (int piece = 0; piece < pieces(); ++piece) {
      if (segment(tile, source, piece).rows.count > 0) return true;
    }
    return false;
  }
  // Every tile sees keys at step 0, its own, so at any other step there is something to go on with.  Whether there will
  // be more after `step`: the last steps are looked at first, because most tiles see their keys.
  MK_HD constexpr bool pauses(int rank, const QueryTile& tile, int step) const {
    MK_LOOP
    for (int after = num_steps() - 1; after > step; --after) {
      if (sees(tile, source_at(world, rank, after))) return true;
    }
    return false;
  }

  // ---- parts and chunks ----

  MK_HD constexpr int num_parts() const { return batch * pieces() * parts_of_piece; }
  MK_HD constexpr Part part_at(int number) const {
    const int piece = number / parts_of_piece;
    return {piece / pieces(), piece % pieces(), number - piece * parts_of_piece};
  }
  // Rows of `source` that are both in the part and in `needed`, a range of positions of its piece.
  MK_HD constexpr Range rows_in(int source, const Part& part, const Range& needed) const {
    const int64_t piece_begins = positions_of(source, part.piece).first;
    const Range all = block_range(piece_rows(), part_rows, part.index);
    const int64_t first = max_of(all.first, needed.first - piece_begins);
    const int64_t end = min_of(all.first + all.count, needed.first + needed.count - piece_begins);
    return {part.piece * piece_rows() + first, max_of<int64_t>(0, end - first)};
  }

  MK_HD constexpr int num_chunks() const { return batch * pieces() * chunks_of_piece; }
  MK_HD constexpr int chunk_of(const Part& part) const {
    return (part.batch * pieces() + part.piece) * chunks_of_piece + part.index / parts_of_chunk;
  }
  // How many parts of a chunk, number `index` of its piece, have rows in `needed`.
  MK_HD constexpr int parts_due(int source, int piece, int index, const Range& needed) const {
    if (needed.count == 0) return 0;
    const int row = static_cast<int>(needed.first - positions_of(source, piece).first);
    const int last = row + static_cast<int>(needed.count) - 1;
    const int first = max_of(index * parts_of_chunk, row / part_rows);
    return max_of(0, min_of((index + 1) * parts_of_chunk, last / part_rows + 1) - first);
  }

  // ---- signals ----
  //
  // arrived: a chunk of `source` lies in its slot here.  room: `peer` of this node has room for what this rank has of
  // `node`'s keys.  rail_room: the rail peer in `node` has room for this rank's.  used: workers of this rank that have
  // read what a rail brought.
  // Keys and values of a part are counted apart: puts land in any order.
  static constexpr uint64_t kHalves = 2;

  MK_HD constexpr uint32_t arrived(int source, int chunk) const {
    return static_cast<uint32_t>(source) * num_chunks() + chunk;
  }
  MK_HD constexpr uint32_t room(int peer, int node) const {
    return arrived(world.size(), 0) + world.local_of(peer) * world.nodes + node;
  }
  MK_HD constexpr uint32_t rail_room(int node) const { return room(0, 0) + world.size() + node; }
  MK_HD constexpr uint32_t used(int node) const { return rail_room(world.nodes) + node; }
  MK_HD constexpr uint32_t num_signals() const { return used(world.nodes); }
  MK_HD constexpr bool is_inner(uint32_t signal) const { return signal >= used(0); }

  // By one rank in one launch: parts, keys and values, and room.
  MK_HD constexpr int64_t most_puts() const { return (world.nodes - 1) * (int64_t{2} * num_parts() + 1); }

 private:
  MK_HD constexpr Place in_slot(uint32_t window, int slot, Half half, int rank, int of_batch, int64_t row) const {
    const int64_t values = half == Half::kValues ? half_bytes() : 0;
    return {window, rank, static_cast<uint64_t>(slot * slot_bytes() + values + row_offset(of_batch, row))};
  }
};

// How a rank's work is cut.
struct Cut {
  int tile_rows = 16;
  int key_rows = 16;         // of a tile of keys, which only the backward pass has
  int64_t part_bytes = 512;  // of keys and values together, about
  int chunks_of_piece = 4;   // at most
  int heads_together = 4;
  int slots = 2;  // of each kind, or as many as steps can use
};

using KeptLayout = Kept<Layout>;

KeptLayout make_layout(const Problem& problem, const Cut& cut, const Roster& roles);

// Of each window, from kStagedWindow on.
std::vector<uint64_t> window_bytes(const Layout& layout);

std::string signal_name(const Layout& layout, uint32_t signal);

// What a rank moves in a launch, by formula: rows that others need, keys and values.  A row crosses to a node once.
uint64_t nvlink_bytes(const Layout& layout, int rank);
uint64_t network_bytes(const Layout& layout, int rank);

}  // namespace mk::attention

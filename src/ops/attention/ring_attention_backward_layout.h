// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward_layout.h — how the gradients of attention over many ranks are cut, and where
// they lie.
//
// Keys and values travel as in the forward pass (ring_attention_layout.h); what a rank computes is cut into tiles of
// keys (ring_attention_backward_tiles.h).  Their gradients travel home:
//
//   collector   where the gradients of a source's keys come together in a node: the source itself, or the rank on its
//               rail, which hands them to the source.  Round n of a collector is for its rail peer n nodes on, 0 for
//               itself.
//   inbox       slots of a collector: what a peer made at a step.  Its own part of round n lies in an outgoing slot,
//               and what other nodes send home in landing slots.  All are fp32.
//   share       gradients of rows of one piece, batch and key head: what a worker collects at once
//   bundle      shares that follow each other, told of by one signal
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/attention/ring_attention_backward_tiles.h"

namespace mk::attention {

constexpr uint32_t kNotesWindow = kFirstOperatorWindow + 3;      // of each query: lse, Σ o ∘ do; of blocks: turns
constexpr uint32_t kQuerySumsWindow = kFirstOperatorWindow + 4;  // of each block
constexpr uint32_t kKeySumsWindow = kFirstOperatorWindow + 5;    // of this rank's keys and values
constexpr uint32_t kInboxWindow = kFirstOperatorWindow + 6;
constexpr uint32_t kOutgoingWindow = kFirstOperatorWindow + 7;
constexpr uint32_t kLandingWindow = kFirstOperatorWindow + 8;

struct Share {
  int batch = 0;
  int kv_head = 0;
  int piece = 0;
  int index = 0;  // in the piece
};

// A row of the rank that has the keys.
struct HeadRow {
  int batch = 0;
  int kv_head = 0;
  int64_t row = 0;
};

struct BackwardLayout : BackwardTiles {
  enum : int { kCollect = 3, kCompute = 4 };
  static constexpr std::array<RoleName, 5> kRoles = {
      {{"intra", "chunk"}, {"send", "chunk"}, {"keep", "step"}, {"collect", "bundle"}, {"compute", "tile"}}};

  int share_rows = 1;
  int shares_of_piece = 1;
  int shares_of_bundle = 1;
  int bundles_of_piece = 1;

  // ---- collectors ----

  MK_HD constexpr int round_of(int step) const { return step / world.ranks; }
  MK_HD constexpr int collector_at(int rank, int step) const {
    return world.rank_at(world.node_of(rank), world.local_of(source_at(world, rank, step)));
  }
  MK_HD constexpr int round_source(int rank, int round) const { return source_at(world, rank, round * world.ranks); }
  MK_HD constexpr bool needs(int rank, int source) const {
    MK_LOOP
    for (int piece = 0; piece < pieces(); ++piece) {
      if (need(rank, source, piece).count > 0) return true;
    }
    return false;
  }
  // The peer that fills number `use` of a collector's inbox, and with what.
  struct Delivery {
    int peer = 0;
    int round = 0;
    int step = 0;  // of the peer
  };
  MK_HD constexpr int num_deliveries() const { return world.nodes * (world.ranks - 1); }
  MK_HD constexpr Delivery delivery(int collector, int use) const {
    const int round = use / (world.ranks - 1);
    const int turn = use % (world.ranks - 1) + 1;
    return {peer_at(world, collector, turn), round, round * world.ranks + turn};
  }
  MK_HD constexpr int delivery_of(int step) const {
    return round_of(step) * (world.ranks - 1) + step % world.ranks - 1;
  }
  MK_HD constexpr bool is_delivered(int collector, int use) const {
    const Delivery of = delivery(collector, use);
    return needs(of.peer, round_source(collector, of.round));
  }
  MK_HD constexpr int inbox_slot(int use) const { return use % local_slots; }
  // The next use of the same slot that is delivered; num_deliveries() if there is none.
  MK_HD constexpr int next_delivery(int collector, int use) const {
    int next = use + local_slots;
    MK_LOOP
    while (next < num_deliveries() && !is_delivered(collector, next)) next += local_slots;
    return min_of(next, num_deliveries());
  }
  MK_HD constexpr bool is_first_delivery(int collector, int use) const {
    MK_LOOP
    for (int before = use - local_slots; before >= 0; before -= local_slots) {
      if (is_delivered(collector, before)) return false;
    }
    return true;
  }

  // Who sends gradients home to `rank` in a round, over its rail: whose node needs keys of `rank`.
  MK_HD constexpr int sender_in(int rank, int round) const { return rail_peer_at(world, rank, round); }
  MK_HD constexpr bool is_sent(int rank, int round) const {
    return brings(sender_in(rank, round), round * world.ranks);
  }
  MK_HD constexpr int landing_slot(int round) const { return (round - 1) % rail_slots; }
  MK_HD constexpr int next_landing(int rank, int round) const {
    int next = round + rail_slots;
    MK_LOOP
    while (next < world.nodes && !is_sent(rank, next)) next += rail_slots;
    return min_of(next, world.nodes);
  }
  MK_HD constexpr bool is_first_landing(int rank, int round) const {
    MK_LOOP
    for (int before = round - rail_slots; before > 0; before -= rail_slots) {
      if (is_sent(rank, before)) return false;
    }
    return true;
  }
  // The round that used the outgoing slot of `round` before; 0 if none.
  MK_HD constexpr int outgoing_before(int rank, int round) const {
    int before = round - rail_slots;
    MK_LOOP
    while (before > 0 && !brings(rank, before * world.ranks)) before -= rail_slots;
    return max_of(before, 0);
  }
  // Whether the sender of a round will use its outgoing slot again.
  MK_HD constexpr bool sender_goes_on(int rank, int round) const {
    return next_use(sender_in(rank, round), round * world.ranks) < num_steps();
  }

  // Keys of the round's source that ranks of the node need which add to its sums before `peer`: the collector, then
  // its peers in the order of deliveries, up to `turn`.
  MK_HD constexpr Range needed_before(int collector, int source, int turn, int piece) const {
    Range all = need(collector, source, piece);
    MK_LOOP
    for (int before = 1; before < turn; ++before) {
      all = around(all, need(peer_at(world, collector, before), source, piece));
    }
    return all;
  }

  // ---- gradients: rows of a key head follow each other ----

  MK_HD constexpr bool collects() const { return world.size() > 1; }  // else gradients go straight to the caller
  MK_HD constexpr int64_t gradient_row_bytes() const { return int64_t{dim} * 4; }
  MK_HD constexpr int64_t gradient_half_bytes() const { return batch * kv_heads * rows * gradient_row_bytes(); }
  MK_HD constexpr Place gradient_in(uint32_t window, int slot, Half half, int rank, const HeadRow& at) const {
    const int64_t before = 2 * slot + (half == Half::kValues ? 1 : 0);
    const int64_t row = (int64_t{at.batch} * kv_heads + at.kv_head) * rows + at.row;
    return {window, rank, static_cast<uint64_t>(before * gradient_half_bytes() + row * gradient_row_bytes())};
  }
  // Where a rank leaves the gradients of the keys of a step.
  MK_HD constexpr Place gradient_at(Half half, int rank, int step, const HeadRow& at) const {
    if (step == 0) return gradient_in(kKeySumsWindow, 0, half, rank, at);
    if (is_rail_step(step)) return gradient_in(kOutgoingWindow, slot_of(step), half, rank, at);
    return gradient_in(kInboxWindow, inbox_slot(delivery_of(step)), half, collector_at(rank, step), at);
  }
  // Where a collector sums those of a round.
  MK_HD constexpr Place collected_at(Half half, int rank, int round, const HeadRow& at) const {
    return gradient_at(half, rank, round * world.ranks, at);
  }
  MK_HD constexpr Place landed_at(Half half, int rank, int round, const HeadRow& at) const {
    return gradient_in(kLandingWindow, landing_slot(round), half, rank, at);
  }
  // Two words of each query of a block.
  MK_HD constexpr int64_t notes_bytes() const { return int64_t{tile_rows} * 8; }
  MK_HD constexpr Place notes_at(int rank, int block) const {
    return {kNotesWindow, rank, static_cast<uint64_t>(block * notes_bytes())};
  }
  // What a GPU notes of a block's turns: for each step and piece that of its tile 0, and then how many there are.
  MK_HD constexpr int turn_words() const { return num_steps() * pieces() + 1; }
  MK_HD constexpr Place turns_at(int rank, int block) const {
    return {kNotesWindow, rank,
            static_cast<uint64_t>(most_tiles() * notes_bytes() + int64_t{block} * turn_words() * 4)};
  }
  MK_HD constexpr int64_t query_sums_bytes() const { return int64_t{tile_rows} * dim * 4; }
  MK_HD constexpr Place query_sums_at(int rank, int block) const {
    return {kQuerySumsWindow, rank, static_cast<uint64_t>(block * query_sums_bytes())};
  }

  // ---- parts and chunks of gradients ----

  MK_HD constexpr int num_shares() const { return batch * kv_heads * pieces() * shares_of_piece; }
  MK_HD constexpr Share share_at(int number) const {
    const int of_piece = number / shares_of_piece;
    const int of_head = of_piece / pieces();
    return {of_head / kv_heads, of_head % kv_heads, of_piece % pieces(), number % shares_of_piece};
  }
  // Rows of `source` that are both in the share and in `needed`, a range of positions of its piece.
  MK_HD constexpr Range rows_in_share(int source, const Share& share, const Range& needed) const {
    const int64_t piece_begins = positions_of(source, share.piece).first;
    const Range all = block_range(piece_rows(), share_rows, share.index);
    const int64_t first = max_of(all.first, needed.first - piece_begins);
    const int64_t end = min_of(all.first + all.count, needed.first + needed.count - piece_begins);
    return {share.piece * piece_rows() + first, max_of<int64_t>(0, end - first)};
  }
  MK_HD constexpr int num_bundles() const { return batch * kv_heads * pieces() * bundles_of_piece; }
  MK_HD constexpr int bundle_of(int of_batch, int kv_head, int piece, int index) const {
    return ((of_batch * kv_heads + kv_head) * pieces() + piece) * bundles_of_piece + index;
  }
  MK_HD constexpr int bundle_of(const Share& share) const {
    return bundle_of(share.batch, share.kv_head, share.piece, share.index / shares_of_bundle);
  }
  MK_HD constexpr int bundle_rows() const { return share_rows * shares_of_bundle; }
  // Bundles, by index in the piece, in which the tile has rows.
  MK_HD constexpr IndexRange bundles_of(const KeyTile& tile) const {
    const int first = static_cast<int>(tile.rows.first - tile.piece * piece_rows());
    return {first / bundle_rows(), (first + static_cast<int>(tile.rows.count) - 1) / bundle_rows() + 1};
  }
  // How many tiles of a rank have rows in the share's bundle.
  MK_HD constexpr int tiles_due(int rank, int source, const Share& share) const {
    const Range needed = need(rank, source, share.piece);
    const int64_t index = share.index / shares_of_bundle;
    const int64_t begins = positions_of(source, share.piece).first + index * bundle_rows();
    const int64_t first = max_of(begins, needed.first);
    const int64_t end = min_of(begins + bundle_rows(), needed.first + needed.count);
    if (first >= end) return 0;
    return key_tile_of(needed, end - 1) - key_tile_of(needed, first) + 1;
  }
  // How many shares of the share's bundle have rows in `needed`.
  MK_HD constexpr int shares_due(int source, const Share& share, const Range& needed) const {
    if (needed.count == 0) return 0;
    const int bundle = share.index / shares_of_bundle;
    const int row = static_cast<int>(needed.first - positions_of(source, share.piece).first);
    const int last = row + static_cast<int>(needed.count) - 1;
    const int first = max_of(bundle * shares_of_bundle, row / share_rows);
    return max_of(0, min_of((bundle + 1) * shares_of_bundle, last / share_rows + 1) - first);
  }

  // ---- signals ----
  //
  // Those of the forward pass, and then.  made: a bundle of gradients that a rank of the node, by its local number,
  // made of the keys of `node`'s rank on this rail.  inbox_room: the collector `peer` has room for what this rank makes
  // of `node`'s keys.  landed: a bundle of gradients of this rank's keys came from `node`.  landing_room: the rank on
  // this rail in `node` has room for those of its keys.  taken: it has read what was put before.  noted: blocks of this
  // rank whose notes are there.  turn: additions to a block.
  MK_HD constexpr uint32_t made(int local, int node, int bundle) const {
    return Layout::num_signals() + static_cast<uint32_t>((local * world.nodes + node) * num_bundles() + bundle);
  }
  MK_HD constexpr uint32_t inbox_room(int peer, int node) const {
    return made(world.ranks, 0, 0) + world.local_of(peer) * world.nodes + node;
  }
  MK_HD constexpr uint32_t landed(int node, int bundle) const {
    return made(world.ranks, 0, 0) + world.size() + node * num_bundles() + bundle;
  }
  MK_HD constexpr uint32_t landing_room(int node) const { return landed(world.nodes, 0) + node; }
  MK_HD constexpr uint32_t taken(int node) const { return landing_room(world.nodes) + node; }
  MK_HD constexpr uint32_t noted() const { return taken(world.nodes); }
  MK_HD constexpr uint32_t turn(int block) const { return noted() + 1 + block; }
  MK_HD constexpr uint32_t num_signals() const { return turn(static_cast<int>(most_tiles())); }
  MK_HD constexpr bool is_inner(uint32_t signal) const {
    return signal >= noted() || (signal < Layout::num_signals() && Layout::is_inner(signal));
  }

  // Keys and room as in the forward pass, gradients, and what each worker that collects says to both sides.
  MK_HD constexpr int64_t most_puts() const {
    return Layout::most_puts() + (world.nodes - 1) * (int64_t{2} * num_shares() + 2 * roles.count(kCollect));
  }
};

struct BackwardCut {
  int block_rows = 16;
  int key_rows = 16;
  int64_t part_bytes = 512;  // of keys and values together, about
  int chunks_of_piece = 4;   // at most; also bundles
  int share_rows = 16;
  int heads_together = 4;
  int slots = 2;  // of each kind, or as many as steps can use
};

using KeptBackwardLayout = Kept<BackwardLayout>;
KeptBackwardLayout make_backward_layout(const Problem& problem, const BackwardCut& cut, const Roster& roles);

// Of each window, from kStagedWindow on.
std::vector<uint64_t> window_bytes(const BackwardLayout& layout);

std::string signal_name(const BackwardLayout& layout, uint32_t signal);

// What a rank moves in a launch, by formula: keys and values as in the forward pass, and their gradients in fp32, once
// from each rank that made some to its collector, and once from a node to the rank whose they are.
uint64_t backward_nvlink_bytes(const BackwardLayout& layout, int rank);
uint64_t backward_network_bytes(const BackwardLayout& layout, int rank);

}  // namespace mk::attention

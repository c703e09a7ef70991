// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_protocol.h — who waits for what, and tells whom, in AllGather+GEMM.
//
//   role      workers  waits for                               tells
//   compute   most     arrived[source, chunk] of its tile      nothing: own rows need no wait
//   intra     a few    ready[peer]                             arrived[own, chunk] at every peer of the node
//                      then landed[node, part]                 arrived[rail peer, chunk] here and at every peer
//   send      a few    ready[rail peer]                        landed[own node, part] at every rail peer (put);
//                                                              where nobody has peers, arrived[own, chunk]
//
// On a GPU in a world of one node there are as many intra workers as compute workers, one beside each (core/roles.h).
//
// A shard crosses each rail once.  The rank that it reaches spreads it inside its node.  A chunk moves in parts.  Each
// part is passed on when it lands, so several workers share a chunk and no step waits for a whole one; `arrived`
// counts parts.
//
// Rows are computed in the order in which they arrive: own rows; the peers', shard after shard; then other nodes',
// node after node.  The shards of a node arrive side by side, each over its own rail, so they are taken in turn: the
// first row block of every shard, then the second of every shard, and so on.
//
// Hand-back: the gathered window is written by others, so nobody may write launch e+1 into it while its owner still
// computes launch e.  Launches of a rank follow each other, so an owner that has begun launch e+1 has finished e.  The
// first intra worker says so to the node (ready), the first send worker to the rails.  Puts read the rank's own rows
// in the gathered window; send workers write them only after they have settled the puts of the launch before.
#pragma once

#include "base/macros.h"
#include "core/announce.h"
#include "core/machine.h"
#include "core/schedule.h"
#include "ops/ag_gemm/ag_gemm_problem.h"

namespace mk::ag_gemm_op {

// A tile of own rows: `number` is below layout.per_shard.by().
MK_HD constexpr Tile own_tile_at(const Layout& layout, int rank, int64_t number) {
  const GridPos at = layout.shard_order.at(static_cast<int>(number));
  return {number, rank, at.row, at.col};
}

MK_HD constexpr Tile tile_at(const Layout& layout, int rank, int64_t number) {
  const WorldShape& world = layout.world;
  const int step = static_cast<int>(number);  // 32 bits: a GPU multiplies 64 in parts
  const int sources_before = layout.per_shard.quotient(step);
  if (sources_before == 0) return own_tile_at(layout, rank, number);
  if (sources_before < world.ranks) {
    const GridPos at = layout.shard_order.at(step - sources_before * layout.per_shard.by());
    return {number, source_at(world, rank, sources_before), at.row, at.col};
  }
  const int first_of_node = sources_before / world.ranks * world.ranks;
  const GridPos at = layout.node_order.at(step - first_of_node * layout.per_shard.by());
  return {number, source_at(world, rank, first_of_node + at.row % world.ranks), at.row / world.ranks, at.col};
}

// Calls body(tile) for the tiles of one compute worker, in order, until body returns false.  Every job
// of a block walks this same loop.
MK_PROTOCOL
template <class Body>
MK_HD bool for_each_tile(const Layout& layout, int rank, const Post& post, Body&& body) {
  for (int64_t number = post.index; number < layout.num_tiles(); number += post.count) {
    if (!body(tile_at(layout, rank, number))) return false;
  }
  return true;
}

// The steps of a tile (ops/gemm/gemm_compute.h).
MK_PROTOCOL
template <Machine M>
MK_HD bool before_load(M& m, const Layout& layout, const Tile& tile) {
  if (tile.source == m.rank()) return true;
  return m.wait(layout.arrived(tile.source, tile.row_block), layout.parts * m.epoch(), tile.number);
}
MK_PROTOCOL
template <Machine M>
MK_HD bool before_store(M&, const Layout&, const Tile&) {
  return true;  // C is the caller's
}
MK_PROTOCOL
template <Machine M>
MK_HD void after_store(M&, const Layout&, const Tile&) {}

// Copies a part of a chunk of `source`, from where it lies here, into a peer's gathered window and says so.
MK_PROTOCOL
template <Machine M>
MK_HD bool give_part(M& m, const Layout& layout, int source, const Part& part, int peer) {
  const int64_t number = layout.chunk_number(source, part.chunk);
  if (!m.wait(layout.ready(peer), m.epoch(), number)) return false;
  const Range bytes = layout.part_bytes(part);
  const uint64_t at = source * layout.shard_bytes() + bytes.first;
  const Place own{kInputWindow, m.rank(), static_cast<uint64_t>(bytes.first)};
  const Place from = source == m.rank() ? own : Place{kGatheredWindow, m.rank(), at};
  m.copy(Place{kGatheredWindow, peer, at}, from, bytes.count);
  m.add(Signal{peer, layout.arrived(source, part.chunk)}, 1);
  m.note(Event{EventKind::kChunkCopied, number, peer});
  return true;
}

// Peer after peer: the one served first is the one that looks for this shard first.
MK_PROTOCOL
template <Machine M>
MK_HD bool give_own_shard(M& m, const Layout& layout, const Post& post) {
  const int64_t per_peer = layout.num_parts();
  for (int64_t item = post.index; item < per_peer * (layout.world.ranks - 1); item += post.count) {
    const int peer = peer_at(layout.world, m.rank(), 1 + static_cast<int>(item / per_peer));
    if (!give_part(m, layout, m.rank(), layout.part_at(item % per_peer), peer)) return false;
  }
  return true;
}

// What comes over the rail, to every peer as it comes.  Who serves the first peer says here that it came.
MK_PROTOCOL
template <Machine M>
MK_HD bool pass_on(M& m, const Layout& layout, const Post& post) {
  const WorldShape& world = layout.world;
  const int peers = world.ranks - 1;
  const int64_t per_source = layout.num_parts() * peers;
  for (int64_t item = post.index; item < per_source * (world.nodes - 1); item += post.count) {
    const int source = source_at(world, m.rank(), world.ranks * (1 + static_cast<int>(item / per_source)));
    const Part part = layout.part_at(item % per_source / peers);
    const int64_t number = layout.chunk_number(source, part.chunk);
    if (!m.wait(layout.landed(world.node_of(source), part), m.epoch(), number)) return false;
    const int peer = static_cast<int>(item % peers);
    if (peer == 0) m.add(Signal{m.rank(), layout.arrived(source, part.chunk)}, 1);
    if (!give_part(m, layout, source, part, peer_at(world, m.rank(), 1 + peer))) return false;
  }
  return true;
}

MK_PROTOCOL
template <Machine M>
MK_HD void intra(M& m, const Layout& layout, const Post& post) {
  if (post.index == 0) announce_to_node(m, layout.ready(m.rank()));
  if (give_own_shard(m, layout, post)) pass_on(m, layout, post);
}

// Node after node; what goes to the first is staged before.
MK_PROTOCOL
template <Machine M>
MK_HD void send(M& m, const Layout& layout, const Post& post) {
  const WorldShape& world = layout.world;
  if (post.index == 0 && !announce_to_rails(m, layout.ready(m.rank()), kGatheredWindow)) return;
  for (int step = 1; step < world.nodes; ++step) {
    const int peer = rail_peer_at(world, m.rank(), step);
    for (int64_t item = post.index; item < layout.num_parts(); item += post.count) {
      const Part part = layout.part_at(item);
      const int64_t number = layout.chunk_number(m.rank(), part.chunk);
      const Range bytes = layout.part_bytes(part);
      const uint64_t at = m.rank() * layout.shard_bytes() + bytes.first;
      const Place staged{kGatheredWindow, m.rank(), at};
      if (step == 1) m.copy(staged, Place{kInputWindow, m.rank(), static_cast<uint64_t>(bytes.first)}, bytes.count);
      if (!m.wait(layout.ready(peer), m.epoch(), number)) return;
      const Place to{kGatheredWindow, peer, at};
      const Signal told{peer, layout.signal_of_put(m.rank(), part)};
      if (!m.put(Put{staged, to, static_cast<uint64_t>(bytes.count), told}, number)) return;
      m.note(Event{EventKind::kChunkPut, number, peer});
    }
  }
  m.settle();
}

// The roles besides compute; nothing in them needs a body.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD void communicate(M& m, const Layout& layout, const Post& post, Body&) {
  if (post.role == Layout::kIntra) return intra(m, layout, post);
  if (post.role == Layout::kSend) return send(m, layout, post);
}

}  // namespace mk::ag_gemm_op

// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_protocol.h — who waits for what, and tells whom, in AllGather+GEMM.
//
//   role      workers       waits for                               tells
//   compute   most          arrived[source, chunk] of its tile      nothing: own rows need no wait
//   intra     a few         ready[peer]                             arrived[own, chunk] at every peer of the node
//   send      one or a few  ready[rail peer]                        arrived[own, chunk] at every rail peer (put)
//   forward   a few         arrived[rail peer, chunk], ready[peer]  arrived[rail peer, chunk] at every peer
//
// A shard crosses each rail once and is spread inside the node by the rank it reached.
//
// Hand-back: the gathered window is written by others, so nobody may write launch e+1 into it while
// its owner still computes launch e.  Launches of a rank follow each other, so an owner that has begun
// launch e+1 has finished e: the first intra worker says so to the node (ready), the first send worker
// to the rails.  What a put reads, the own rows in the gathered window, is written by send workers
// after they settled the puts of the launch before.
#pragma once

#include "base/macros.h"
#include "core/machine.h"
#include "core/schedule.h"
#include "ops/ag_gemm/ag_gemm_problem.h"

namespace mk::ag_gemm_op {

MK_HD constexpr Tile tile_at(const Layout& layout, int rank, int64_t number) {
  const int per_source = layout.row_blocks * layout.col_blocks;
  const int step = static_cast<int>(number);  // 32 bits: a GPU divides 64 in software
  const int sources_before = quotient(step, per_source);
  const int source = sources_before == 0 ? rank : source_at(layout.world, rank, sources_before);
  const GridPos at = banded(step - sources_before * per_source, layout.row_blocks, layout.col_blocks, layout.band);
  return {number, source, at.row, at.col};
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

MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_rows(M& m, const Layout& layout, const Tile& tile) {
  if (tile.source == m.rank()) return true;
  return m.wait(layout.arrived(tile.source, tile.row_block), m.epoch(), tile.number);
}

// Copies one chunk of `source`, from where it lies here, into a peer's gathered window and says so.
MK_PROTOCOL
template <Machine M>
MK_HD bool give_chunk(M& m, const Layout& layout, const Place& from, int source, int chunk, int peer) {
  const int64_t number = layout.chunk_number(source, chunk);
  if (!m.wait(layout.ready(peer), m.epoch(), number)) return false;
  const Range bytes = layout.chunk_bytes(chunk);
  const uint64_t at = source * layout.shard_bytes() + bytes.first;
  m.copy(Place{kGatheredWindow, peer, at}, from, bytes.count);
  m.add(Signal{peer, layout.arrived(source, chunk)}, 1);
  m.note(Event{EventKind::kChunkCopied, number, peer});
  return true;
}

MK_PROTOCOL
template <Machine M>
MK_HD void intra(M& m, const Layout& layout, const Post& post) {
  const WorldShape& world = layout.world;
  const int peers = world.ranks - 1;
  if (post.index == 0) {
    for (int step = 1; step <= peers; ++step) {
      m.add(Signal{peer_at(world, m.rank(), step), layout.ready(m.rank())}, 1);
    }
  }
  for (int64_t item = post.index; item < static_cast<int64_t>(layout.row_blocks) * peers; item += post.count) {
    // Peer after peer: the one served first is the one that looks for this shard first.
    const int chunk = static_cast<int>(item % layout.row_blocks);
    const int peer = peer_at(world, m.rank(), 1 + static_cast<int>(item / layout.row_blocks));
    const Place from{kInputWindow, m.rank(), static_cast<uint64_t>(layout.chunk_bytes(chunk).first)};
    if (!give_chunk(m, layout, from, m.rank(), chunk, peer)) return;
  }
}

MK_PROTOCOL
template <Machine M>
MK_HD void send(M& m, const Layout& layout, const Post& post) {
  const WorldShape& world = layout.world;
  if (post.index == 0) {
    for (int step = 1; step < world.nodes; ++step) {
      const int peer = rail_peer_at(world, m.rank(), step);
      const Place here{kGatheredWindow, m.rank(), 0};
      const Place there{kGatheredWindow, peer, 0};
      if (!m.put(Put{here, there, 0, Signal{peer, layout.ready(m.rank())}}, -1)) return;
    }
  }
  for (int chunk = post.index; chunk < layout.row_blocks; chunk += post.count) {
    const int64_t number = layout.chunk_number(m.rank(), chunk);
    const Range bytes = layout.chunk_bytes(chunk);
    const uint64_t at = m.rank() * layout.shard_bytes() + bytes.first;
    const Place staged{kGatheredWindow, m.rank(), at};
    m.copy(staged, Place{kInputWindow, m.rank(), static_cast<uint64_t>(bytes.first)}, bytes.count);
    for (int step = 1; step < world.nodes; ++step) {
      const int peer = rail_peer_at(world, m.rank(), step);
      if (!m.wait(layout.ready(peer), m.epoch(), number)) return;
      const Signal arrived{peer, layout.arrived(m.rank(), chunk)};
      if (!m.put(Put{staged, Place{kGatheredWindow, peer, at}, static_cast<uint64_t>(bytes.count), arrived}, number))
        return;
      m.note(Event{EventKind::kChunkPut, number, peer});
    }
  }
  m.settle();
}

MK_PROTOCOL
template <Machine M>
MK_HD void forward(M& m, const Layout& layout, const Post& post) {
  const WorldShape& world = layout.world;
  const int peers = world.ranks - 1;
  const int64_t per_source = static_cast<int64_t>(layout.row_blocks) * peers;
  for (int64_t item = post.index; item < per_source * (world.nodes - 1); item += post.count) {
    const int source = source_at(world, m.rank(), world.ranks * (1 + static_cast<int>(item / per_source)));
    const int chunk = static_cast<int>(item % per_source / peers);
    const int peer = peer_at(world, m.rank(), 1 + static_cast<int>(item % peers));
    if (!m.wait(layout.arrived(source, chunk), m.epoch(), layout.chunk_number(source, chunk))) return;
    const uint64_t at = source * layout.shard_bytes() + layout.chunk_bytes(chunk).first;
    if (!give_chunk(m, layout, Place{kGatheredWindow, m.rank(), at}, source, chunk, peer)) return;
  }
}

// The communication roles; compute is the target's, over for_each_tile and wait_for_rows.
MK_PROTOCOL
template <Machine M>
MK_HD void communicate(M& m, const Layout& layout, const Post& post) {
  switch (post.role) {
    case Role::kIntra: return intra(m, layout, post);
    case Role::kSend: return send(m, layout, post);
    case Role::kForward: return forward(m, layout, post);
    default: return;
  }
}

}  // namespace mk::ag_gemm_op

// SPDX-License-Identifier: MIT
// ops/gemm_rs/gemm_rs_protocol.h — who waits for what, and tells whom, in GEMM+ReduceScatter.
//
//   role      workers   waits for                                 tells
//   compute   most      ready[reducer], unless that is itself     partial[owner node, tile] at the reducer
//   reduce    a few     partial[owner node, tile]: all R of the   arrived[this node, tile] at the owner (put),
//                       node; ready[owner], before a put          if that is on another node
//                       arrived[every other node, tile], of own   nothing: C is written
//                       rows
//
// A tile of another node's rows is summed inside the node by its reducer and crosses the rail once, as
// the node's sum.  Compute makes the rows of other nodes first and its own node's last; inside a node all
// ranks go through the same band of row blocks at the same time, so a band is reduced as soon as it can.
//
// Hand-back: partial results are written by node peers and incoming sums by rail peers, so neither may
// write launch e+1 while this rank reduces e.  The first reduce worker says when this rank has begun
// (ready), to the node and to the rails.  What a put reads, an outgoing sum, is written by reduce workers
// after those of the launch before have settled.
//
// A body has, besides what compute needs (ops/gemm/gemm_compute.h):
//
//   sum(tile, addends, to)     the sum of a node, rounded, into the image at `to`
//   finish(tile, node_sums)    the sum of all nodes into C
#pragma once

#include "base/macros.h"
#include "core/announce.h"
#include "core/machine.h"
#include "core/schedule.h"
#include "ops/gemm_rs/gemm_rs_problem.h"

namespace mk::gemm_rs_op {

// A rank's order of maths: node after node, band after band, there the owners in turn, own rows last.
MK_HD constexpr Tile tile_at(const Layout& layout, int rank, int64_t number) {
  const WorldShape& world = layout.world;
  const int per_node = world.ranks * static_cast<int>(layout.shard.tiles());
  const int step = static_cast<int>(number);
  const int node = served_node_at(world.node_of(rank), step / per_node, world.nodes);
  const GroupPos pos =
      banded_groups(step % per_node, world.ranks, layout.shard.row_blocks, layout.shard.col_blocks, layout.band);
  const int local = wrap(world.local_of(rank) + 1 + pos.group, world.ranks);
  return {number, world.rank_at(node, local), pos.at.row, pos.at.col};
}

// A reducer's order: the same, of the owners on its rail.
MK_HD constexpr Tile reduced_at(const Layout& layout, int rank, int64_t number) {
  const WorldShape& world = layout.world;
  const int per_node = static_cast<int>(layout.shard.tiles());
  const int step = static_cast<int>(number);
  const int node = served_node_at(world.node_of(rank), step / per_node, world.nodes);
  const GridPos at = banded(step % per_node, layout.shard.row_blocks, layout.shard.col_blocks, layout.band);
  return {number, world.rank_at(node, world.local_of(rank)), at.row, at.col};
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

// The steps of a tile (ops/gemm/gemm_compute.h): its partial result goes to where its reducer looks for it.  A world of
// one rank writes C.
MK_PROTOCOL
template <Machine M>
MK_HD bool before_load(M&, const Layout&, const Tile&) {
  return true;  // A is the caller's
}
MK_PROTOCOL
template <Machine M>
MK_HD bool before_store(M& m, const Layout& layout, const Tile& tile) {
  const int reducer = layout.reducer_of(m.rank(), tile.source);
  return reducer == m.rank() || m.wait(layout.ready(reducer), m.epoch(), tile.number);
}
MK_PROTOCOL
template <Machine M>
MK_HD void after_store(M& m, const Layout& layout, const Tile& tile) {
  if (layout.num_images() == 0) return;
  const Place at = layout.partial_place(m.rank(), tile);
  m.store(at, layout.shard.tile_bytes(tile).count);
  m.add(Signal{at.rank, layout.partial(layout.world.node_of(tile.source), tile)}, 1);
}

// Sums a tile of another node's rows and sends it to its owner.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool send_sum(M& m, const Layout& layout, const Tile& tile, Body& body) {
  const uint64_t bytes = layout.shard.tile_bytes(tile).count;
  const int node = layout.world.node_of(m.rank());
  const Place from = layout.outgoing_place(m.rank(), tile);
  body.sum(tile, layout.partials(m.rank(), tile), from);
  m.store(from, bytes);
  if (!m.wait(layout.ready(tile.source), m.epoch(), tile.number)) return false;
  const Signal arrived{tile.source, layout.arrived(node, tile)};
  if (!m.put(Put{from, layout.incoming_place(node, tile), bytes, arrived}, tile.number)) return false;
  m.note(Event{EventKind::kTilePut, tile.number, tile.source});
  return true;
}

// Waits for the other nodes' sums of an own tile.
MK_PROTOCOL
template <Machine M>
MK_HD bool take_sums(M& m, const Layout& layout, const Tile& tile) {
  const WorldShape& world = layout.world;
  for (int step = 1; step < world.nodes; ++step) {
    const int from = world.node_of(rail_peer_at(world, m.rank(), step));
    if (!m.wait(layout.arrived(from, tile), m.epoch(), tile.number)) return false;
  }
  load_all(m, layout.node_sums(tile).others, layout.shard.tile_bytes(tile).count);
  return true;
}

// One reduce worker's tiles.  finish(tile, node_sums) makes the result of an own tile; false: leave.
MK_PROTOCOL
template <Machine M, class Body, class Finish>
MK_HD void reduce_tiles(M& m, const Layout& layout, const Post& post, Body& body, Finish&& finish) {
  const uint64_t all = static_cast<uint64_t>(layout.world.ranks);
  for (int64_t number = post.index; number < layout.num_reduced(); number += post.count) {
    const Tile tile = reduced_at(layout, m.rank(), number);
    if (!m.wait(layout.partial(layout.world.node_of(tile.source), tile), all * m.epoch(), number)) return;
    load_all(m, layout.partials(m.rank(), tile), layout.shard.tile_bytes(tile).count);
    if (tile.source != m.rank()) {
      if (!send_sum(m, layout, tile, body)) return;
      continue;
    }
    if (!take_sums(m, layout, tile) || !finish(tile, layout.node_sums(tile))) return;
    m.note(Event{EventKind::kTileReduced, number, m.rank()});
  }
  if (layout.world.nodes > 1) m.settle();  // one node has no network
}

// The first act of a rank's first reduce worker.
MK_PROTOCOL
template <Machine M>
MK_HD bool announce(M& m, const Layout& layout) {
  announce_to_node(m, layout.ready(m.rank()));
  return announce_to_rails(m, layout.ready(m.rank()), kIncomingWindow);
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD void reduce(M& m, const Layout& layout, const Post& post, Body& body) {
  if (post.index == 0 && !announce(m, layout)) return;
  reduce_tiles(m, layout, post, body, [&](const Tile& tile, const sums::NodeSums& sums) {
    body.finish(tile, sums);
    return true;
  });
}

// The roles besides compute.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD void communicate(M& m, const Layout& layout, const Post& post, Body& body) {
  reduce(m, layout, post, body);
}

}  // namespace mk::gemm_rs_op

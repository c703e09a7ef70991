// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_one_shot_protocol.h — who waits for what, and tells whom, in GEMM+AllReduce in one shot.
//
//   role      workers   waits for                                    tells
//   compute   most      ready[peer], of every peer of the node       partial[tile] at every rank of the node
//   reduce    a few     partial[tile], all R of the node;            arrived[this node, tile] at every rail
//                       ready[rail peer], before a put               peer (put)
//                       then arrived[every other node, tile]         nothing: C is written
//
// Every rank reduces every tile.  All ranks of a node make the same node sum from the same bits, and each
// sends it along its own rail, so all ranks of the world make the same result.
//
// Hand-back is that of GEMM+ReduceScatter: partial results are written by node peers and other nodes' sums
// by rail peers, both after this rank has begun (ready); node sums are what puts read, and are settled.
//
// Bodies are those of GEMM+ReduceScatter.
#pragma once

#include "base/macros.h"
#include "core/announce.h"
#include "core/machine.h"
#include "core/schedule.h"
#include "ops/gemm/gemm_compute.h"
#include "ops/gemm_ar/gemm_ar_one_shot.h"

namespace mk::gemm_ar_op {

MK_HD constexpr Tile tile_at(const OneShotLayout& layout, int64_t number) {
  const GridPos at = banded(static_cast<int>(number), layout.whole.row_blocks, layout.whole.col_blocks, layout.band);
  return {number, 0, at.row, at.col};
}

// Calls body(tile) for the tiles of one worker, in order, until body returns false.
MK_PROTOCOL
template <class Body>
MK_HD bool for_each_tile(const OneShotLayout& layout, int, const Post& post, Body&& body) {
  for (int64_t number = post.index; number < layout.num_tiles(); number += post.count) {
    if (!body(tile_at(layout, number))) return false;
  }
  return true;
}

// The steps of a tile (ops/gemm/gemm_compute.h): its partial result goes to every rank of the node.
MK_PROTOCOL
template <Machine M>
MK_HD bool before_load(M&, const OneShotLayout&, const Tile&) {
  return true;  // A is the caller's
}
MK_PROTOCOL
template <Machine M>
MK_HD bool before_store(M& m, const OneShotLayout& layout, const Tile& tile) {
  for (int step = 0; step < layout.num_images(); ++step) {
    const int receiver = layout.receiver(m.rank(), tile, step);
    if (receiver != m.rank() && !m.wait(layout.ready(receiver), m.epoch(), tile.number)) return false;
  }
  return true;
}
MK_PROTOCOL
template <Machine M>
MK_HD void after_store(M& m, const OneShotLayout& layout, const Tile& tile) {
  for (int step = 0; step < layout.num_images(); ++step) {
    m.store(gemm::image_place(layout, m.rank(), tile, step), layout.whole.tile_bytes(tile).count);
  }
  for (int step = 0; step < layout.num_images(); ++step) {
    m.add(Signal{layout.receiver(m.rank(), tile, step), layout.partial(tile)}, 1);
  }
}

MK_PROTOCOL
template <Machine M>
MK_HD bool take_partials(M& m, const OneShotLayout& layout, const Tile& tile) {
  const uint64_t all = static_cast<uint64_t>(layout.world.ranks);
  if (!m.wait(layout.partial(tile), all * m.epoch(), tile.number)) return false;
  load_all(m, layout.partials(m.rank(), tile), layout.whole.tile_bytes(tile).count);
  return true;
}

// Sums a tile inside the node and sends it along the rail.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool send_sum(M& m, const OneShotLayout& layout, const Tile& tile, Body& body) {
  const WorldShape& world = layout.world;
  const uint64_t bytes = layout.whole.tile_bytes(tile).count;
  const int node = world.node_of(m.rank());
  const Place from = layout.node_sum_place(m.rank(), tile);
  body.sum(tile, layout.partials(m.rank(), tile), from);
  m.store(from, bytes);
  for (int step = 1; step < world.nodes; ++step) {
    const int peer = rail_peer_at(world, m.rank(), step);
    if (!m.wait(layout.ready(peer), m.epoch(), tile.number)) return false;
    const Signal arrived{peer, layout.arrived(node, tile)};
    if (!m.put(Put{from, layout.other_sum_place(peer, node, tile), bytes, arrived}, tile.number)) return false;
    m.note(Event{EventKind::kTilePut, tile.number, peer});
  }
  return true;
}

MK_PROTOCOL
template <Machine M>
MK_HD bool take_sums(M& m, const OneShotLayout& layout, const Tile& tile) {
  const WorldShape& world = layout.world;
  for (int step = 1; step < world.nodes; ++step) {
    const int from = world.node_of(rail_peer_at(world, m.rank(), step));
    if (!m.wait(layout.arrived(from, tile), m.epoch(), tile.number)) return false;
  }
  const sums::NodeSums sums = layout.node_sums(m.rank(), tile);
  load_all(m, sums.own, layout.whole.tile_bytes(tile).count);
  load_all(m, sums.others, layout.whole.tile_bytes(tile).count);
  return true;
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD void reduce(M& m, const OneShotLayout& layout, const Post& post, Body& body) {
  if (post.index == 0) {
    announce_to_node(m, layout.ready(m.rank()));
    if (!announce_to_rails(m, layout.ready(m.rank()), kOtherSumsWindow)) return;
  }
  const bool has_nodes = layout.world.nodes > 1;
  const auto finish = [&](const Tile& tile) {
    if (!(has_nodes ? take_sums(m, layout, tile) : take_partials(m, layout, tile))) return false;
    body.finish(tile, layout.node_sums(m.rank(), tile));
    m.note(Event{EventKind::kTileReduced, tile.number, m.rank()});
    return true;
  };
  const auto send = [&](const Tile& tile) { return take_partials(m, layout, tile) && send_sum(m, layout, tile, body); };
  // All sums are on their way before the first of the others is waited for.
  if (has_nodes && !for_each_tile(layout, m.rank(), post, send)) return;
  if (!for_each_tile(layout, m.rank(), post, finish)) return;
  if (has_nodes) m.settle();
}

// The roles besides compute.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD void communicate(M& m, const OneShotLayout& layout, const Post& post, Body& body) {
  reduce(m, layout, post, body);
}

}  // namespace mk::gemm_ar_op

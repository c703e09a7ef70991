// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_protocol.h — who waits for what, and tells whom, in GEMM+AllReduce in two shots.
//
//   role      workers   waits for                              tells
//   compute   most      as in GEMM+ReduceScatter               as there
//   reduce    a few     as there                               as there; of own rows: finished[own, tile] at
//                                                              the node's peers, and at rail peers by put
//   intra     a few     finished[owner, tile], of every        finished[owner, tile] at the node's peers, of
//                       other owner's tiles                    tiles that came over its rail
//
// An owner finishes a tile once, keeps it in its final window and puts it there at its rail peers.  So each node has
// every tile at its holder, and each rank pulls the tiles that it does not hold from there into C: all ranks get the
// same bits.
//
// Hand-back: finished tiles need none besides that of ReduceScatter.  A finished tile of launch e+1 contains products
// that every rank made in e+1, after it had gathered all of e.  So a rank that has such a tile may overwrite the one
// of e.
//
// A body has, besides those of ReduceScatter:
//
//   finish_to(tile, node_sums, to)   the sum of all nodes into C and into the image at `to`
//   take(tile, from)                 a finished tile from the image at `from` into C
#pragma once

#include "base/macros.h"
#include "core/machine.h"
#include "core/schedule.h"
#include "ops/gemm_ar/gemm_ar_two_shot.h"
#include "ops/gemm_rs/gemm_rs_protocol.h"

namespace mk::gemm_ar_op {

// The order in which a rank gathers: as bands are finished, there its node's peers first, then the other
// nodes, in each of them the one on its own rail first.
MK_HD constexpr Tile gathered_at(const TwoShotLayout& layout, int rank, int64_t number) {
  const WorldShape& world = layout.world;
  const GroupPos pos = banded_groups(static_cast<int>(number), world.size() - 1, layout.shard.row_blocks,
                                     layout.shard.col_blocks, layout.band);
  return {number, source_at(world, rank, 1 + pos.group), pos.at.row, pos.at.col};
}

// Says in the node that a tile lies here.
MK_PROTOCOL
template <Machine M>
MK_HD void tell_node(M& m, const TwoShotLayout& layout, const Tile& tile) {
  for (int step = 1; step < layout.world.ranks; ++step) {
    m.add(Signal{peer_at(layout.world, m.rank(), step), layout.finished(tile)}, 1);
  }
}

// Finishes an own tile and hands it out, first to where the way is longest.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool publish(M& m, const TwoShotLayout& layout, const Tile& tile, const sums::NodeSums& sums, Body& body) {
  const WorldShape& world = layout.world;
  const uint64_t bytes = layout.shard.tile_bytes(tile).count;
  const Place here = layout.final_place(m.rank(), tile);
  body.finish_to(tile, sums, here);
  m.store(here, bytes);
  for (int step = 1; step < world.nodes; ++step) {
    const int peer = rail_peer_at(world, m.rank(), step);
    const Signal arrived{peer, layout.finished(tile)};
    if (!m.put(Put{here, layout.final_place(peer, tile), bytes, arrived}, tile.number)) return false;
    m.note(Event{EventKind::kTilePut, tile.number, peer});
  }
  tell_node(m, layout, tile);
  return true;
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD void reduce(M& m, const TwoShotLayout& layout, const Post& post, Body& body) {
  if (post.index == 0 && !gemm_rs_op::announce(m, layout)) return;
  gemm_rs_op::reduce_tiles(m, layout, post, body, [&](const Tile& tile, const sums::NodeSums& sums) {
    return publish(m, layout, tile, sums, body);
  });
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD void gather(M& m, const TwoShotLayout& layout, const Post& post, Body& body) {
  for (int64_t number = post.index; number < layout.num_gathered(); number += post.count) {
    const Tile tile = gathered_at(layout, m.rank(), number);
    if (!m.wait(layout.finished(tile), m.epoch(), number)) return;
    const int holder = layout.holder_of(m.rank(), tile.source);
    if (holder == m.rank()) tell_node(m, layout, tile);
    const Place from = layout.final_place(holder, tile);
    m.load(from, layout.shard.tile_bytes(tile).count);
    body.take(tile, from);
    m.note(Event{EventKind::kTileTaken, number, holder});
  }
}

// Compute is that of ReduceScatter.
using gemm_rs_op::after_store;
using gemm_rs_op::before_load;
using gemm_rs_op::before_store;
using gemm_rs_op::for_each_tile;

// The roles besides compute.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD void communicate(M& m, const TwoShotLayout& layout, const Post& post, Body& body) {
  if (post.role == TwoShotLayout::kReduce) return reduce(m, layout, post, body);
  if (post.role == TwoShotLayout::kIntra) return gather(m, layout, post, body);
}

}  // namespace mk::gemm_ar_op

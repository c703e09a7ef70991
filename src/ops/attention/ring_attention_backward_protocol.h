// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward_protocol.h — who waits for what, and whom they tell, in the backward pass.
//
//   role      workers         waits for                              tells
//   compute   most            noted, of all blocks of this rank      noted
//                             arrived[chunk] of a tile's keys        room, used
//                             inbox_room of a step                   made[bundle] at the step's collector
//                             taken, before an outgoing slot is
//                             used again
//                             turn[block] before it adds             turn[block]
//   intra     a few           as in the forward pass                 as in the forward pass
//   send      a few           as in the forward pass                 as in the forward pass
//   keep      one             as in the forward pass                 as in the forward pass
//   collect   a few           made[bundle] of peers and its own      inbox_room at the next who delivers
//                             landing_room at the source             landed[bundle] at the source
//                             landed[bundle]                         landing_room and taken at senders
//
// Steps are those of the forward pass.  A rank computes gradients of the keys that it takes at a step, for its own
// queries.  A collector adds what comes to it, always in the same order: its own, its peers' in the order of their
// steps, and for its own keys what other nodes send, node after node.
//
// Everybody who waits at step t needs only what others do at earlier steps, or before at the same, so nobody waits in a
// circle: a tile waits for tiles before it, a collector's round r for steps up to the last of round r, and an inbox, an
// outgoing or a landing slot for what was in it before.  Workers take tiles in turn and in order, so the first tile
// that is not done never waits for its turn.
#pragma once

#include "core/machine.h"
#include "core/turns.h"
#include "ops/attention/ring_attention_backward_layout.h"
#include "ops/attention/ring_attention_collect_protocol.h"
#include "ops/attention/ring_attention_protocol.h"

namespace mk::attention {

// ---- compute -----------------------------------------------------------------------------------------

// Room for the gradients of a step.
MK_PROTOCOL
template <Machine M>
MK_HD bool before_gradients(M& m, const BackwardLayout& layout, int step) {
  const uint64_t all = layout.roles.count(BackwardLayout::kCollect) * m.epoch();
  if (step == 0 || !layout.needs(m.rank(), source_at(layout.world, m.rank(), step))) return true;
  const int round = layout.round_of(step);
  if (!layout.is_rail_step(step)) {
    const int collector = layout.collector_at(m.rank(), step);
    const int node = layout.world.node_of(source_at(layout.world, m.rank(), step));
    return m.wait(layout.inbox_room(collector, node), all, step);
  }
  const int before = layout.outgoing_before(m.rank(), round);
  if (before == 0) return true;
  return m.wait(layout.taken(layout.world.node_of(layout.round_source(m.rank(), before))), all, step);
}

// Until all keys of the tile are here.
MK_PROTOCOL
template <Machine M>
MK_HD bool before_tile(M& m, const BackwardLayout& layout, const KeyTile& tile, int step) {
  if (step == 0) return true;
  const int first = static_cast<int>(tile.rows.first - tile.piece * layout.piece_rows());
  const int last = first + static_cast<int>(tile.rows.count) - 1;
  const int chunk_rows = layout.part_rows * layout.parts_of_chunk;
  MK_LOOP
  for (int index = first / chunk_rows; index <= last / chunk_rows; ++index) {
    if (!wait_for_chunk(m, layout, step, tile.batch, tile.piece, index, tile.number)) return false;
  }
  return true;
}

// The tile's gradients are where its collector finds them.
MK_PROTOCOL
template <Machine M>
MK_HD void after_tile(M& m, const BackwardLayout& layout, const KeyTile& tile, int step) {
  if (!layout.collects()) return;
  const WorldShape& world = layout.world;
  const HeadRow first{tile.batch, tile.kv_head, tile.rows.first};
  for (const Half half : {Half::kKeys, Half::kValues}) {
    m.store(layout.gradient_at(half, m.rank(), step, first), tile.rows.count * layout.gradient_row_bytes());
  }
  const int collector = layout.collector_at(m.rank(), step);
  const int node = world.node_of(source_at(world, m.rank(), step));
  const IndexRange bundles = layout.bundles_of(tile);
  MK_LOOP
  for (int index = bundles.begin; index < bundles.end; ++index) {
    const int bundle = layout.bundle_of(tile.batch, tile.kv_head, tile.piece, index);
    m.add(Signal{collector, layout.made(world.local_of(m.rank()), node, bundle)}, 1);
  }
}

// Until it is the tile's turn to add to a block, of `turns` in a launch.
MK_PROTOCOL
template <Machine M>
MK_HD bool before_addition(M& m, const BackwardLayout& layout, int block, int turn, int turns) {
  return m.wait_turn(layout.turn(block), static_cast<uint64_t>(turns) * (m.epoch() - 1) + turn, block);
}
MK_PROTOCOL
template <Machine M>
MK_HD void after_addition(M& m, const BackwardLayout& layout, int block) {
  m.pass_turn(layout.turn(block));
}

// Until nobody will add to a block any more.
MK_PROTOCOL
template <Machine M>
MK_HD bool before_result(M& m, const BackwardLayout& layout, const QueryBlock& block) {
  return m.wait(layout.turn(block.number), layout.turns_of(m.rank(), block) * m.epoch(), block.number);
}

// Notes of this worker's blocks.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD void note_blocks(M& m, const BackwardLayout& layout, const Post& post, Body& body) {
  MK_LOOP
  for (int number = post.index; number < layout.num_blocks(m.rank()); number += post.count) {
    body.note(layout.block_at(m.rank(), number));
    m.store(layout.notes_at(m.rank(), number), layout.notes_bytes());
    m.add(Signal{m.rank(), layout.noted()}, 1);
  }
}

// Until all blocks are noted.
MK_PROTOCOL
template <Machine M>
MK_HD bool before_blocks(M& m, const BackwardLayout& layout) {
  return m.wait(layout.noted(), layout.num_blocks(m.rank()) * m.epoch(), 0);
}

// A tile against a block.  The body does what happens inside:
//   note(block)                    notes of a block's queries
//   begin(tile, step)              with these keys; their gradients are zero
//   attend(block)                  adds to the gradients of the tile's keys, and makes those of the block's queries
//   add_queries(block, turn)       adds the latter to the block's sums; turn 0 stores them
//   end(tile, step)                leaves the gradients of the keys
//   finish_queries(block)          from sums to the caller
//   finish_keys(half, first, rows) likewise, so many rows of a key head
//   finish_sink(head)              from all notes of a head to the caller
//   add_keys(to, from, bytes)      fp32, element by element
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool add_block(M& m, const BackwardLayout& layout, const KeyTile& tile, int step, int number, Body& body) {
  const QueryBlock block = layout.block_at(m.rank(), number);
  m.load(layout.notes_at(m.rank(), number), layout.notes_bytes());
  body.attend(block);
  const Turn at = layout.turn_of(m.rank(), block, step, tile);
  if (!before_addition(m, layout, number, at.turn, at.turns)) return false;
  const Place sums = layout.query_sums_at(m.rank(), number);
  if (at.turn > 0) m.load(sums, layout.query_sums_bytes());
  body.add_queries(block, at.turn);
  m.store(sums, layout.query_sums_bytes());
  after_addition(m, layout, number);
  return true;
}

// Calls visit(number) for the blocks that see the tile: the last rows first, for all heads that share its keys.  So
// tiles come to each block in their order without much waiting.  False: visit said so.
MK_PROTOCOL
template <class Visit>
MK_HD bool for_each_block(const BackwardLayout& layout, int rank, const KeyTile& tile, Visit&& visit) {
  const int group = layout.heads / layout.kv_heads;
  const int of_head = layout.tiles_of_head(rank);
  MK_LOOP
  for (int piece = layout.pieces() - 1; piece >= 0; --piece) {
    const IndexRange blocks = layout.blocks_that_see(rank, piece, tile);
    const int first = layout.first_block(rank, tile.batch, tile.kv_head * group, piece);
    MK_LOOP
    for (int index = blocks.end - 1; index >= blocks.begin; --index) {
      MK_LOOP
      for (int head = 0; head < group; ++head) {
        if (!visit(first + head * of_head + index)) return false;
      }
    }
  }
  return true;
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool visit_keys(M& m, const BackwardLayout& layout, const KeyTile& tile, int step, Body& body) {
  m.note(Event{EventKind::kTileBegin, tile.number, source_at(layout.world, m.rank(), step)});
  body.begin(tile, step);
  const bool is_done = for_each_block(layout, m.rank(), tile,
                                      [&](int number) { return add_block(m, layout, tile, step, number, body); });
  if (!is_done) return false;
  body.end(tile, step);
  after_tile(m, layout, tile, step);
  m.note(Event{EventKind::kTileEnd, tile.number, source_at(layout.world, m.rank(), step)});
  return true;
}

// Calls visit(tile, step) for this worker's tiles, when their keys are here, and then end(step).  False: visit said so,
// or what it needs did not come.
MK_PROTOCOL
template <Machine M, class Visit, class End>
MK_HD MK_INLINE bool for_each_key_tile(M& m, const BackwardLayout& layout, const Post& post, Visit&& visit, End&& end) {
  const bool may_claim = layout.num_steps() == 1;
  MK_LOOP
  for (int step = 0; step < layout.num_steps(); ++step) {
    if (!before_gradients(m, layout, step)) return false;
    const int64_t tiles = layout.num_key_tiles(m.rank(), step);
    MK_LOOP
    for (int64_t number = may_claim ? first_turn(m, post) : post.index; number < tiles;
         number = may_claim ? next_turn(m, post, number) : number + post.count) {
      const KeyTile tile = layout.key_tile_at(m.rank(), step, number);
      if (!before_tile(m, layout, tile, step)) return false;
      const uint64_t key_bytes = tile.rows.count * layout.key_row_bytes();
      for (const Half half : {Half::kKeys, Half::kValues}) {
        m.load(layout.keys_at(half, m.rank(), step, tile.batch, tile.rows.first), key_bytes);
      }
      if (!visit(tile, step)) return false;
    }
    end(step);
  }
  return true;
}

// Results of this worker's blocks, and of its heads' sinks.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD void finish_blocks(M& m, const BackwardLayout& layout, const Post& post, Body& body) {
  MK_LOOP
  for (int number = post.index; number < layout.num_blocks(m.rank()); number += post.count) {
    const QueryBlock block = layout.block_at(m.rank(), number);
    if (!before_result(m, layout, block)) return;
    m.load(layout.query_sums_at(m.rank(), number), layout.query_sums_bytes());
    body.finish_queries(block);
  }
  if (!before_blocks(m, layout)) return;
  m.load(layout.notes_at(m.rank(), 0), layout.num_blocks(m.rank()) * layout.notes_bytes());
  MK_LOOP
  for (int head = post.index; head < layout.heads; head += post.count) body.finish_sink(head);
}

// On an SM these are the parts of different jobs (ring_attention_backward_kernel.cuh).
MK_PROTOCOL
template <Machine M, class Body>
MK_HD void compute_gradients(M& m, const BackwardLayout& layout, const Post& post, Body& body) {
  before_steps(m, layout);
  note_blocks(m, layout, post, body);
  if (!before_blocks(m, layout)) return;
  const auto visit = [&](const KeyTile& tile, int step) { return visit_keys(m, layout, tile, step, body); };
  if (!for_each_key_tile(m, layout, post, visit, [&](int step) { after_step(m, layout, step); })) return;
  finish_blocks(m, layout, post, body);
}

// A worker's launch.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD void work(M& m, const BackwardLayout& layout, const Post& post, Body& body) {
  if (post.role == BackwardLayout::kCompute) return compute_gradients(m, layout, post, body);
  if (post.role == BackwardLayout::kCollect) return collect(m, layout, post, body);
  communicate(m, layout, post);
}

}  // namespace mk::attention

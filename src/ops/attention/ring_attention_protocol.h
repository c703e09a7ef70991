// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_protocol.h — who waits for what, and tells whom, in attention over many ranks.
//
//   role     workers  waits for                            tells
//   compute  most     arrived[source, chunk] of its keys   room at who writes next into a local slot it has read;
//                                                          used[node] of a rail slot
//   intra    a few    room[peer]; what the rail brought:   arrived[source, chunk] at a peer of the node
//                     arrived[rail peer, chunk]            used[node], when all peers have it
//   send     a few    rail_room[node]                      arrived[own, chunk] at the rail peer (put, one for keys and
//                                                          one for values)
//   keep     one      used[node] of a rail slot            rail_room at the rail peer that writes next into it (put)
//
// A rank takes the keys of one source after the other, step by step (ring_attention_layout.h).  At a step each compute
// worker goes through its own tiles, always the same ones; what a tile has so far lies in the state window between
// steps, in fp32.  A row crosses each rail once, if somebody in that node needs it; the rank it reaches spreads it.
//
// Hand-back: slots are used many times in a launch.  Who may write into one for the first time is told when the launch
// begins: launches of a rank follow each other, so then everybody has read what was there.  After that the readers of
// a slot tell its next writer.  Who waits at step t needs only what others do at steps before t, so nobody waits in a
// circle: local slots are handed back by compute alone, and rail slots have a keeper of their own.  Staged rows are
// overwritten in the next launch, when puts have been settled.
#pragma once

#include "core/copy_rows.h"
#include "core/machine.h"
#include "core/turns.h"
#include "ops/attention/ring_attention_layout.h"

namespace mk::attention {

// Those tiles of a compute worker that see keys at a step, in order.  A worker always has the same tiles; in a world of
// one rank, where there is one step, its machine may claim them.
template <class M>
class Visits {
 public:
  MK_HD Visits(M& m, const Layout& layout, const Post& post, int step)
      : m_(m),
        layout_(layout),
        post_(post),
        step_(step),
        source_(source_at(layout.world, m.rank(), step)),
        number_(post.index - post.count) {}

  // False: there are no more.  Not called again then.
  MK_PROTOCOL
  MK_HD bool next(QueryTile& tile) {
    MK_LOOP
    do {
      go_on();
      if (number_ >= layout_.num_tiles(m_.rank())) return false;
      tile = layout_.tile_at(m_.rank(), number_);
    } while (step_ > 0 && !layout_.sees(tile, source_));  // its rank's own keys every tile sees
    return true;
  }

 private:
  MK_PROTOCOL
  MK_HD void go_on() { number_ = layout_.num_steps() == 1 ? next_turn(m_, post_, number_) : number_ + post_.count; }

  M& m_;
  const Layout& layout_;
  const Post& post_;
  const int step_;
  const int source_;
  int64_t number_;  // of the last; a turn before the first to begin with
};

// ---- steps of compute ------------------------------------------------------------------------------

// Says to who writes at `step` that there is room; one of as many as compute.
MK_PROTOCOL
template <Machine M>
MK_HD void tell_of_room(M& m, const Layout& layout, int step) {
  const int writer = layout.writer_at(m.rank(), step);
  const int node = layout.world.node_of(source_at(layout.world, m.rank(), step));
  m.add(Signal{writer, layout.room(m.rank(), node)}, 1);
}

MK_PROTOCOL
template <Machine M>
MK_HD void before_steps(M& m, const Layout& layout) {
  MK_LOOP
  for (int step = 1; step < layout.num_steps(); ++step) {
    const bool is_local = !layout.is_rail_step(step);
    if (is_local && layout.brings(m.rank(), step) && layout.is_first_use(m.rank(), step)) tell_of_room(m, layout, step);
  }
}

// Until a chunk of what comes at a step is here.
MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_chunk(M& m, const Layout& layout, int step, int batch, int piece, int index, int64_t subject) {
  const int source = source_at(layout.world, m.rank(), step);
  const Range brought = layout.brought(m.rank(), step, piece);
  const uint64_t due = Layout::kHalves * layout.parts_due(source, piece, index, brought);
  const int chunk = (batch * layout.pieces() + piece) * layout.chunks_of_piece + index;
  return m.wait(layout.arrived(source, chunk), due * m.epoch(), subject);
}

// Chunks of one step and batch that a compute worker has waited for: the next tile most often needs them again.
class ChunksHere {
 public:
  MK_HD void turn_to(int step, int batch) {
    if (step != step_ || batch != batch_) chunks_ = 0;
    step_ = step;
    batch_ = batch;
  }
  // Chunks are numbered over all pieces; from kMost on they are not kept.
  MK_HD bool has(int chunk) const { return chunk < kMost && (chunks_ >> chunk & 1) != 0; }
  MK_HD void add(int chunk) {
    if (chunk < kMost) chunks_ |= uint32_t{1} << chunk;
  }

 private:
  static constexpr int kMost = 32;

  int step_ = -1;
  int batch_ = -1;
  uint32_t chunks_ = 0;
};

// Until all rows of the segment are here.
MK_PROTOCOL
template <Machine M>
MK_HD bool before_keys(M& m, const Layout& layout, const QueryTile& tile, int step, const Segment& segment,
                       ChunksHere& here) {
  if (step == 0) return true;
  here.turn_to(step, tile.batch);
  const int first = static_cast<int>(segment.rows.first - segment.piece * layout.piece_rows());
  const int last = first + static_cast<int>(segment.rows.count) - 1;
  const int chunk_rows = layout.part_rows * layout.parts_of_chunk;
  MK_LOOP
  for (int index = first / chunk_rows; index <= last / chunk_rows; ++index) {
    const int chunk = segment.piece * layout.chunks_of_piece + index;
    if (here.has(chunk)) continue;
    if (!wait_for_chunk(m, layout, step, tile.batch, segment.piece, index, tile.number)) return false;
    here.add(chunk);
  }
  return true;
}

// Until keys are here that no tile sees (Layout::need): their slot is not handed back before.
MK_PROTOCOL
template <Machine M>
MK_HD bool before_end(M& m, const Layout& layout, int step, ChunksHere& here) {
  if (step == 0 || !layout.may_need_too_much()) return true;
  here.turn_to(step, 0);
  MK_LOOP
  for (int chunk = 0; chunk < layout.num_chunks(); ++chunk) {
    const int piece = chunk / layout.chunks_of_piece;
    if (here.has(chunk) || layout.need(m.rank(), source_at(layout.world, m.rank(), step), piece).count == 0) continue;
    if (!wait_for_chunk(m, layout, step, 0, piece, chunk % layout.chunks_of_piece, chunk)) return false;
  }
  return true;
}

// The worker has read all it needs of the step's keys.
MK_PROTOCOL
template <Machine M>
MK_HD void after_step(M& m, const Layout& layout, int step) {
  if (step == 0 || !layout.brings(m.rank(), step)) return;
  const int next = layout.next_use(m.rank(), step);
  if (next == layout.num_steps()) return;
  if (layout.is_rail_step(step)) {
    m.add(Signal{m.rank(), layout.used(layout.world.node_of(source_at(layout.world, m.rank(), step)))}, 1);
  } else {
    tell_of_room(m, layout, next);
  }
}

// A tile's part of a step.  The body does what happens inside a tile:
//   begin(tile), resume(tile)      nothing yet, or what the state window has
//   attend(tile, step, segment)    with these keys
//   pause(tile), finish(tile)      back to the state window, or to the caller
MK_PROTOCOL
template <Machine M, class Body>
MK_HD MK_INLINE bool visit(M& m, const Layout& layout, const QueryTile& tile, int step, ChunksHere& here, Body& body) {
  const int source = source_at(layout.world, m.rank(), step);
  if (step > 0) {
    m.load(layout.state_at(m.rank(), tile), layout.tile_state_bytes());
    body.resume(tile);
  } else {
    body.begin(tile);
  }
  MK_LOOP
  for (int piece = 0; piece < layout.pieces(); ++piece) {
    const Segment segment = layout.segment(tile, source, piece);
    if (segment.rows.count == 0) continue;
    if (!before_keys(m, layout, tile, step, segment, here)) return false;
    const uint64_t bytes = segment.rows.count * layout.key_row_bytes();
    for (const Half half : {Half::kKeys, Half::kValues}) {
      m.load(layout.keys_at(half, m.rank(), step, tile.batch, segment.rows.first), bytes);
    }
    body.attend(tile, step, segment);
  }
  if (layout.pauses(m.rank(), tile, step)) {
    body.pause(tile);
    m.store(layout.state_at(m.rank(), tile), layout.tile_state_bytes());
  } else {
    body.finish(tile);
  }
  return true;
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD void compute(M& m, const Layout& layout, const Post& post, Body& body) {
  before_steps(m, layout);
  ChunksHere here;
  MK_LOOP
  for (int step = 0; step < layout.num_steps(); ++step) {
    const int source = source_at(layout.world, m.rank(), step);
    Visits<M> visits(m, layout, post, step);
    MK_LOOP
    for (QueryTile tile; visits.next(tile);) {
      m.note(Event{EventKind::kTileBegin, tile.number, source});
      if (!visit(m, layout, tile, step, here, body)) return;
      m.note(Event{EventKind::kTileEnd, tile.number, source});
    }
    if (!before_end(m, layout, step, here)) return;
    after_step(m, layout, step);
  }
}

// ---- roles that move keys and values -----------------------------------------------------------------

// Calls give(part, rows) for this worker's parts of `source` with rows in need(piece).
MK_PROTOCOL
template <class Need, class Give>
MK_HD bool for_each_part(const Layout& layout, int source, const Post& post, const Need& need, Give&& give) {
  MK_LOOP
  for (int number = post.index; number < layout.num_parts(); number += post.count) {
    const Part part = layout.part_at(number);
    const Range rows = layout.rows_in(source, part, need(part.piece));
    if (rows.count > 0 && !give(part, rows)) return false;
  }
  return true;
}

// Copies rows of this rank's own to where no gaps are: all at once or, if there are gaps, as much as follows each
// other.
MK_PROTOCOL
template <Machine M>
MK_HD void copy_own(M& m, const Layout& layout, Half half, const Place& to, int batch, const Range& rows) {
  const auto bytes = static_cast<uint64_t>(layout.key_row_bytes());
  const Gaps gaps = layout.gaps_of(half);
  if (gaps == Gaps::kNone) return m.copy(to, layout.input_at(half, m.rank(), batch, rows.first), rows.count * bytes);
  const int parts = gaps == Gaps::kBetweenHeads ? layout.kv_heads : 1;
  copy_rows(m, to, static_cast<int>(rows.count) * parts, bytes / parts,
            [&](int i) { return layout.input_at(half, m.rank(), batch, rows.first + i / parts, i % parts); });
}

// Gives what `peer` takes at `peer_step` from where it lies here, which is what this rank has at `own_step`.
MK_PROTOCOL
template <Machine M>
MK_HD bool give_to_peer(M& m, const Layout& layout, const Post& post, int own_step, int peer, int peer_step) {
  const int source = source_at(layout.world, m.rank(), own_step);
  const auto need = [&](int piece) { return layout.need(peer, source, piece); };
  return for_each_part(layout, source, post, need, [&](const Part& part, const Range& rows) {
    const int chunk = layout.chunk_of(part);
    const uint64_t room = layout.roles.num_compute() * m.epoch();
    if (!m.wait(layout.room(peer, layout.world.node_of(source)), room, chunk)) return false;
    const int index = part.index / layout.parts_of_chunk;
    if (own_step > 0 && !wait_for_chunk(m, layout, own_step, part.batch, part.piece, index, chunk)) return false;
    for (const Half half : {Half::kKeys, Half::kValues}) {
      const Place to = layout.keys_at(half, peer, peer_step, part.batch, rows.first);
      if (own_step == 0) {
        copy_own(m, layout, half, to, part.batch, rows);
      } else {
        m.copy(to, layout.keys_at(half, m.rank(), own_step, part.batch, rows.first),
               rows.count * layout.key_row_bytes());
      }
    }
    m.add(Signal{peer, layout.arrived(source, chunk)}, Layout::kHalves);
    m.note(Event{EventKind::kChunkCopied, chunk, peer});
    return true;
  });
}

// Own rows, then what the rail brings, node after node; peer after peer, each at the step at which it takes them.
MK_PROTOCOL
template <Machine M>
MK_HD void intra(M& m, const Layout& layout, const Post& post) {
  const WorldShape& world = layout.world;
  MK_LOOP
  for (int own_step = 0; own_step < layout.num_steps(); own_step += world.ranks) {
    MK_LOOP
    for (int i = 1; i < world.ranks; ++i) {
      if (!give_to_peer(m, layout, post, own_step, peer_at(world, m.rank(), i), own_step + i)) return;
    }
    if (own_step > 0) after_step(m, layout, own_step);
  }
}

MK_PROTOCOL
template <Machine M>
MK_HD bool put_part(M& m, const Layout& layout, int peer, const Part& part, const Range& rows) {
  const int step = layout.rail_step(peer, layout.world.node_of(m.rank()));
  const int chunk = layout.chunk_of(part);
  for (const Half half : {Half::kKeys, Half::kValues}) {
    const Place from = layout.staged_at(half, m.rank(), part.batch, rows.first);
    const Place to = layout.keys_at(half, peer, step, part.batch, rows.first);
    const uint64_t bytes = rows.count * layout.key_row_bytes();
    if (!m.put(Put{from, to, bytes, Signal{peer, layout.arrived(m.rank(), chunk)}}, chunk)) return false;
  }
  m.note(Event{EventKind::kChunkPut, chunk, peer});
  return true;
}

// Node after node.  A part is staged, as far as anybody needs it, before it is first put.
MK_PROTOCOL
template <Machine M>
MK_HD void send(M& m, const Layout& layout, const Post& post) {
  const WorldShape& world = layout.world;
  const auto all_need = [&](int piece) { return layout.need_of_others(m.rank(), piece); };
  for_each_part(layout, m.rank(), post, all_need, [&](const Part& part, const Range& rows) {
    for (const Half half : {Half::kKeys, Half::kValues}) {
      copy_own(m, layout, half, layout.staged_at(half, m.rank(), part.batch, rows.first), part.batch, rows);
    }
    return true;
  });
  MK_LOOP
  for (int step = 1; step < world.nodes; ++step) {
    const int peer = rail_peer_at(world, m.rank(), step);
    const int node = world.node_of(peer);
    const auto need = [&](int piece) { return layout.need_of_node(node, m.rank(), piece); };
    const bool alive = for_each_part(layout, m.rank(), post, need, [&](const Part& part, const Range& rows) {
      return m.wait(layout.rail_room(node), m.epoch(), step) && put_part(m, layout, peer, part, rows);
    });
    if (!alive) return;
  }
  m.settle();
}

// One worker of the role keeps the rail slots; what they brought is used in the order of the steps.
MK_PROTOCOL
template <Machine M>
MK_HD bool tell_rail_of_room(M& m, const Layout& layout, int step) {
  const int writer = source_at(layout.world, m.rank(), step);
  const Signal room{writer, layout.rail_room(layout.world.node_of(m.rank()))};
  return m.put(Put{Place{kRailWindow, m.rank(), 0}, Place{kRailWindow, writer, 0}, 0, room}, step);
}
MK_PROTOCOL
template <Machine M>
MK_HD void keep(M& m, const Layout& layout, const Post& post) {
  const WorldShape& world = layout.world;
  const int intra = world.ranks > 1 ? layout.roles.count(Layout::kIntra) : 0;
  const uint64_t users = layout.roles.num_compute() + intra;
  if (post.index == 0) {
    MK_LOOP
    for (int step = world.ranks; step < layout.num_steps(); step += world.ranks) {
      if (!layout.brings(m.rank(), step) || !layout.is_first_use(m.rank(), step)) continue;
      if (!tell_rail_of_room(m, layout, step)) return;
    }
    MK_LOOP
    for (int step = world.ranks; step < layout.num_steps(); step += world.ranks) {
      if (!layout.brings(m.rank(), step)) continue;
      const int next = layout.next_use(m.rank(), step);
      if (next == layout.num_steps()) continue;
      const int node = world.node_of(source_at(world, m.rank(), step));
      if (!m.wait(layout.used(node), users * m.epoch(), step)) return;
      if (!tell_rail_of_room(m, layout, next)) return;
    }
  }
  m.settle();
}

// All roles but compute.
MK_PROTOCOL
template <Machine M>
MK_HD void communicate(M& m, const Layout& layout, const Post& post) {
  if (post.role == Layout::kIntra) return intra(m, layout, post);
  if (post.role == Layout::kSend) return send(m, layout, post);
  if (post.role == Layout::kKeep) return keep(m, layout, post);
}

// A worker's launch.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD void work(M& m, const Layout& layout, const Post& post, Body& body) {
  if (post.role == Layout::kCompute) {
    compute(m, layout, post, body);
  } else {
    communicate(m, layout, post);
  }
}

}  // namespace mk::attention

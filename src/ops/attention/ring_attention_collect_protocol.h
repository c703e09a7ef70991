// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_collect_protocol.h — the role `collect`: gradients of keys come together in a node and
// go home (ring_attention_backward_protocol.h).
#pragma once

#include "core/machine.h"
#include "ops/attention/ring_attention_backward_layout.h"

namespace mk::attention {

// Calls take(share, rows) for this worker's shares of `source` with rows in need(piece).
MK_PROTOCOL
template <class Need, class Take>
MK_HD bool for_each_share(const BackwardLayout& layout, int source, const Post& post, const Need& need, Take&& take) {
  MK_LOOP
  for (int number = post.index; number < layout.num_shares(); number += post.count) {
    const Share share = layout.share_at(number);
    const Range rows = layout.rows_in_share(source, share, need(share.piece));
    if (rows.count > 0 && !take(share, rows)) return false;
  }
  return true;
}

// Until all gradients are here that a rank of the node made of the share's bundle in a round.
MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_made(M& m, const BackwardLayout& layout, int maker, int round, const Share& share) {
  const WorldShape& world = layout.world;
  const int source = layout.round_source(m.rank(), round);
  const uint64_t due = layout.tiles_due(maker, source, share);
  if (due == 0) return true;
  const int bundle = layout.bundle_of(share);
  return m.wait(layout.made(world.local_of(maker), world.node_of(source), bundle), due * m.epoch(), bundle);
}

// Adds rows of a share to a round's sums, of keys and of values; or sets them, if there is nothing in the sums yet.
enum class Collected { kNothing, kSome };
MK_PROTOCOL
template <Machine M, class From, class Body>
MK_HD void collect_rows(M& m, const BackwardLayout& layout, int round, const HeadRow& first, int64_t rows,
                        Collected so_far, const From& from, Body& body) {
  if (rows == 0) return;
  const uint64_t bytes = rows * layout.gradient_row_bytes();
  for (const Half half : {Half::kKeys, Half::kValues}) {
    const Place addend = from(half, first);
    const Place sums = layout.collected_at(half, m.rank(), round, first);
    if (so_far == Collected::kNothing) {
      m.copy(sums, addend, bytes);
      continue;
    }
    m.load(addend, bytes);
    m.load(sums, bytes);
    body.add_keys(sums, addend, bytes);
    m.store(sums, bytes);
  }
}

// The same of rows of which those in `old` have sums: the others lie before and behind them.
MK_PROTOCOL
template <Machine M, class From, class Body>
MK_HD void collect_share(M& m, const BackwardLayout& layout, int round, const Share& share, const Range& rows,
                         const Range& old, const From& from, Body& body) {
  const int64_t end = rows.first + rows.count;
  const int64_t old_first = old.count == 0 ? end : max_of(rows.first, min_of(old.first, end));
  const int64_t old_end = old.count == 0 ? end : max_of(rows.first, min_of(old.first + old.count, end));
  const auto collect_from = [&](int64_t first, int64_t last, Collected so_far) {
    const HeadRow row{share.batch, share.kv_head, first};
    collect_rows(m, layout, round, row, last - first, so_far, from, body);
  };
  collect_from(rows.first, old_first, Collected::kNothing);
  collect_from(old_first, old_end, Collected::kSome);
  collect_from(old_end, end, Collected::kNothing);
}

// To who delivers number `use`, if anybody does, that there is room; one of as many as collect.
MK_PROTOCOL
template <Machine M>
MK_HD void tell_of_inbox(M& m, const BackwardLayout& layout, int use) {
  if (use == layout.num_deliveries()) return;
  const auto of = layout.delivery(m.rank(), use);
  const int node = layout.world.node_of(layout.round_source(m.rank(), of.round));
  m.add(Signal{of.peer, layout.inbox_room(m.rank(), node)}, 1);
}

// Takes number `use` out of the inbox.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool collect_delivery(M& m, const BackwardLayout& layout, const Post& post, int use, Body& body) {
  const auto of = layout.delivery(m.rank(), use);
  const int source = layout.round_source(m.rank(), of.round);
  const auto need = [&](int piece) { return layout.need(of.peer, source, piece); };
  const auto from = [&](Half half, const HeadRow& row) { return layout.gradient_at(half, of.peer, of.step, row); };
  const bool is_alive = for_each_share(layout, source, post, need, [&](const Share& share, const Range& rows) {
    if (!wait_for_made(m, layout, m.rank(), of.round, share)) return false;
    if (!wait_for_made(m, layout, of.peer, of.round, share)) return false;
    const Range known = layout.needed_before(m.rank(), source, of.step % layout.world.ranks, share.piece);
    collect_share(m, layout, of.round, share, rows, layout.rows_in_share(source, share, known), from, body);
    m.note(Event{EventKind::kChunkCopied, layout.bundle_of(share), of.peer});
    return true;
  });
  if (is_alive) tell_of_inbox(m, layout, layout.next_delivery(m.rank(), use));
  return is_alive;
}

// Sends a round's sums to the rank whose keys they are of.
MK_PROTOCOL
template <Machine M>
MK_HD bool send_home(M& m, const BackwardLayout& layout, const Post& post, int round) {
  const WorldShape& world = layout.world;
  const int home = layout.round_source(m.rank(), round);
  const auto need = [&](int piece) { return layout.need_of_node(world.node_of(m.rank()), home, piece); };
  return for_each_share(layout, home, post, need, [&](const Share& share, const Range& rows) {
    const int bundle = layout.bundle_of(share);
    if (!wait_for_made(m, layout, m.rank(), round, share)) return false;
    if (!m.wait(layout.landing_room(world.node_of(home)), post.count * m.epoch(), bundle)) return false;
    const HeadRow first{share.batch, share.kv_head, rows.first};
    for (const Half half : {Half::kKeys, Half::kValues}) {
      const Place from = layout.collected_at(half, m.rank(), round, first);
      const Place to = layout.landed_at(half, home, round, first);
      const Signal landed{home, layout.landed(world.node_of(m.rank()), bundle)};
      const uint64_t bytes = rows.count * layout.gradient_row_bytes();
      if (!m.put(Put{from, to, bytes, landed}, bundle)) return false;
    }
    m.note(Event{EventKind::kChunkPut, bundle, home});
    return true;
  });
}

// A put without bytes, to who sends to this rank in a round.
MK_PROTOCOL
template <Machine M>
MK_HD bool tell_sender(M& m, const BackwardLayout& layout, int round, uint32_t signal) {
  const int sender = layout.sender_in(m.rank(), round);
  const Place nowhere{kLandingWindow, m.rank(), 0};
  return m.put(Put{nowhere, Place{kLandingWindow, sender, 0}, 0, Signal{sender, signal}}, round);
}
MK_PROTOCOL
template <Machine M>
MK_HD bool tell_of_landing(M& m, const BackwardLayout& layout, int round) {
  if (round == layout.world.nodes) return true;
  return tell_sender(m, layout, round, layout.landing_room(layout.world.node_of(m.rank())));
}

// Adds what another node made of this rank's keys.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool collect_landed(M& m, const BackwardLayout& layout, const Post& post, int round, Body& body) {
  const int node = layout.world.node_of(layout.sender_in(m.rank(), round));
  const auto need = [&](int piece) { return layout.need_of_node(node, m.rank(), piece); };
  const auto from = [&](Half half, const HeadRow& row) { return layout.landed_at(half, m.rank(), round, row); };
  const bool is_alive = for_each_share(layout, m.rank(), post, need, [&](const Share& share, const Range& rows) {
    if (!wait_for_made(m, layout, m.rank(), 0, share)) return false;
    const int bundle = layout.bundle_of(share);
    const uint64_t due = Layout::kHalves * layout.shares_due(m.rank(), share, need(share.piece));
    if (!m.wait(layout.landed(node, bundle), due * m.epoch(), bundle)) return false;
    const HeadRow first{share.batch, share.kv_head, rows.first};
    collect_rows(m, layout, 0, first, rows.count, Collected::kSome, from, body);
    return true;
  });
  if (!is_alive) return false;
  const uint32_t taken = layout.taken(layout.world.node_of(m.rank()));
  if (layout.sender_goes_on(m.rank(), round) && !tell_sender(m, layout, round, taken)) return false;
  return tell_of_landing(m, layout, layout.next_landing(m.rank(), round));
}

// The first users of each slot may begin: this rank's launch before has ended, so the slots have been read.
MK_PROTOCOL
template <Machine M>
MK_HD bool open_slots(M& m, const BackwardLayout& layout) {
  MK_LOOP
  for (int use = 0; use < layout.num_deliveries(); ++use) {
    if (layout.is_delivered(m.rank(), use) && layout.is_first_delivery(m.rank(), use)) tell_of_inbox(m, layout, use);
  }
  MK_LOOP
  for (int round = 1; round < layout.world.nodes; ++round) {
    if (!layout.is_sent(m.rank(), round) || !layout.is_first_landing(m.rank(), round)) continue;
    if (!tell_of_landing(m, layout, round)) return false;
  }
  return true;
}

// What the node made of the keys of the rail peer `round` nodes on, and what that many nodes before made of this
// rank's.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool collect_round(M& m, const BackwardLayout& layout, const Post& post, int round, Body& body) {
  const int ranks = layout.world.ranks;
  const int before = round > 0 ? layout.outgoing_before(m.rank(), round) : 0;
  if (before > 0 && layout.brings(m.rank(), round * ranks)) {
    const int node = layout.world.node_of(layout.round_source(m.rank(), before));
    if (!m.wait(layout.taken(node), post.count * m.epoch(), round)) return false;
  }
  MK_LOOP
  for (int use = round * (ranks - 1); use < (round + 1) * (ranks - 1); ++use) {
    if (layout.is_delivered(m.rank(), use) && !collect_delivery(m, layout, post, use, body)) return false;
  }
  if (round == 0) return true;
  if (!send_home(m, layout, post, round)) return false;
  return !layout.is_sent(m.rank(), round) || collect_landed(m, layout, post, round, body);
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD void collect(M& m, const BackwardLayout& layout, const Post& post, Body& body) {
  if (!open_slots(m, layout)) return;
  MK_LOOP
  for (int round = 0; round < layout.world.nodes; ++round) {
    if (!collect_round(m, layout, post, round, body)) return;
  }
  const auto all = [&](int piece) { return layout.positions_of(m.rank(), piece); };
  const bool is_alive = for_each_share(layout, m.rank(), post, all, [&](const Share& share, const Range& rows) {
    if (!wait_for_made(m, layout, m.rank(), 0, share)) return false;
    const HeadRow first{share.batch, share.kv_head, rows.first};
    for (const Half half : {Half::kKeys, Half::kValues}) {
      m.load(layout.collected_at(half, m.rank(), 0, first), rows.count * layout.gradient_row_bytes());
      body.finish_keys(half, first, rows.count);
    }
    return true;
  });
  if (is_alive && layout.world.nodes > 1) m.settle();
}

}  // namespace mk::attention

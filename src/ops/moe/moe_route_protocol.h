// SPDX-License-Identifier: MIT
// ops/moe/moe_route_protocol.h — the first part of moe_dispatch_protocol.h: dispatch workers list this rank's pairs,
// tell all ranks the counts, and make the plan from those of all.
#pragma once

#include "base/macros.h"
#include "core/machine.h"
#include "core/schedule.h"
#include "core/stamp.h"
#include "ops/moe/moe_layout.h"

namespace mk::moe {

// All stamps of a launch are this one.
MK_HD constexpr uint64_t here_in(uint64_t epoch) { return stamp_of(epoch, 1); }

// This rank's Counts, to its own workers, to the node and to the rails.
MK_PROTOCOL
template <Machine M>
MK_HD bool publish(M& m, const Layout& layout) {
  const Place own = layout.counts_at(m.rank(), m.rank(), m.epoch());
  for (int step = 1; step < m.world().nodes; ++step) {
    const int peer = rail_peer_at(m.world(), m.rank(), step);
    const Put put{.from = own,
                  .to = layout.counts_at(peer, m.rank(), m.epoch()),
                  .bytes = layout.counts_bytes(),
                  .signal = {peer, layout.counted(m.rank(), m.epoch())},
                  .stamp = here_in(m.epoch())};
    if (!m.put(put, -1)) return false;
  }
  m.stamp(Signal{m.rank(), layout.counted(m.rank(), m.epoch())}, here_in(m.epoch()));
  for (int step = 1; step < m.world().ranks; ++step) {
    const int peer = peer_at(m.world(), m.rank(), step);
    m.copy(layout.counts_at(peer, m.rank(), m.epoch()), own, layout.counts_bytes());
    m.stamp(Signal{peer, layout.counted(m.rank(), m.epoch())}, here_in(m.epoch()));
  }
  return true;
}

MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_counts(M& m, const Layout& layout, int rank) {
  return m.wait_stamp(layout.counted(rank, m.epoch()), here_in(m.epoch()), -1);
}

// What came over the rail, to the peers of the node.
MK_PROTOCOL
template <Machine M>
MK_HD bool pass_on_counts(M& m, const Layout& layout) {
  for (int step = 1; step < m.world().nodes; ++step) {
    const int from = m.world().rank_at(layout.source_node_at(m.rank(), step), m.world().local_of(m.rank()));
    if (!wait_for_counts(m, layout, from)) return false;
    for (int to = 1; to < m.world().ranks; ++to) {
      const int peer = peer_at(m.world(), m.rank(), to);
      m.copy(layout.counts_at(peer, from, m.epoch()), layout.counts_at(m.rank(), from, m.epoch()),
             layout.counts_bytes());
      m.stamp(Signal{peer, layout.counted(from, m.epoch())}, here_in(m.epoch()));
    }
  }
  return true;
}

// This worker's part of the plan.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool make_plan(M& m, const Layout& layout, const Post& post, Body& body) {
  for (int rank = 0; rank < m.world().size(); ++rank) {
    if (!wait_for_counts(m, layout, rank)) return false;
  }
  body.plan(m, post.index);
  m.add(Signal{m.rank(), layout.planned()}, 1);
  return true;
}

MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_plan(M& m, const Layout& layout) {
  return m.wait(layout.planned(), m.epoch() * layout.num_planners(), -1);
}

// Tells that this worker is done with its part, and waits until all dispatch workers of the rank are.
MK_PROTOCOL
template <Machine M>
MK_HD bool join(M& m, const Post& post, uint32_t signal) {
  m.add(Signal{m.rank(), signal}, 1);
  return m.wait(signal, m.epoch() * post.count, -1);
}

// Counting sort of this rank's pairs by expert: workers count slices of tokens, sum experts over the slices, and list
// their slices.  The first worker also tells all ranks the counts, and the first few make the plan.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool route(M& m, const Layout& layout, const Post& post, Body& body) {
  const int slices = layout.num_slices(body.tokens());
  for (int slice = post.index; slice < slices; slice += post.count) body.count(m, slice);
  if (!join(m, post, layout.histograms())) return false;
  for (int word = post.index; word < layout.histogram_words(); word += post.count) body.sum(m, word);
  if (!join(m, post, layout.summed())) return false;
  if (post.index == 0) {
    body.total(m);
    if (!publish(m, layout)) return false;
  }
  const int apart = post.count > 1 ? 1 : 0;  // others list meanwhile, if there are any
  for (int slice = post.index - apart; slice >= 0 && slice < slices; slice += post.count - apart) body.list(m, slice);
  m.add(Signal{m.rank(), layout.listed()}, 1);
  if (post.index == 0 && !pass_on_counts(m, layout)) return false;
  return post.index >= layout.num_planners() || make_plan(m, layout, post, body);
}

MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_lists(M& m, const Layout& layout) {
  return m.wait(layout.listed(), m.epoch() * layout.roles.count(Layout::kDispatch), -1);
}

}  // namespace mk::moe

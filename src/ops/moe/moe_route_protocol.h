// SPDX-License-Identifier: MIT
// ops/moe/moe_route_protocol.h — the first part of moe_dispatch_protocol.h: dispatch workers list this rank's pairs,
// tell all ranks the counts, and make the plan from those of all.
#pragma once

#include "base/macros.h"
#include "core/machine.h"
#include "ops/moe/moe_drop_protocol.h"
#include "ops/moe/moe_layout.h"
#include "ops/moe/moe_notice.h"

namespace mk::moe {

MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_counts(M& m, const Layout& layout, int rank) {
  return wait_for_notice(m, CountsNotice{layout, m.epoch()}, rank);
}

// This worker's part of the plan.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool make_plan(M& m, const Layout& layout, const Post& post, Body& body) {
  if (!wait_for_all(m, CountsNotice{layout, m.epoch()})) return false;
  body.plan(m, post.index);
  m.add(Signal{m.rank(), layout.planned()}, 1);
  return true;
}

MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_plan(M& m, const Layout& layout) {
  return m.wait(layout.planned(), m.epoch() * layout.num_planners(), -1);
}

// Workers count slices of tokens, and sum experts over the slices.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD MK_INLINE bool count_pairs(M& m, const Layout& layout, const Post& post, Body& body) {
  const int slices = layout.num_slices(body.tokens());
  for (int slice = post.index; slice < slices; slice += post.count) body.count(m, slice);
  const Table histogram = layout.histogram();
  if (!join(m, post, layout.histograms())) return false;
  for (int word = post.index; word < histogram.words; word += post.count) body.sum(m, histogram, word);
  return join(m, post, layout.summed());
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD MK_INLINE void list_pairs(M& m, const Layout& layout, const Post& post, Body& body) {
  const int slices = layout.num_slices(body.tokens());
  const int apart = post.count > 1 ? 1 : 0;  // others list while the first one tells
  for (int slice = post.index - apart; slice >= 0 && slice < slices; slice += post.count - apart) body.list(m, slice);
  m.add(Signal{m.rank(), layout.listed()}, 1);
}

// Counting sort of this rank's pairs by expert: workers count them, then list their slices.  The first worker also
// tells all ranks the counts, and the first few make the plan.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD MK_INLINE bool route(M& m, const Layout& layout, const Post& post, Body& body) {
  if (layout.drops && !drop_what_does_not_fit(m, layout, post, body)) return false;
  if (!count_pairs(m, layout, post, body)) return false;
  const CountsNotice counts{layout, m.epoch()};
  if (post.index == 0) {
    body.total(m);
    if (!publish(m, counts)) return false;
  }
  list_pairs(m, layout, post, body);
  if (post.index == 0 && !pass_on(m, layout, counts)) return false;
  return post.index >= layout.num_planners() || make_plan(m, layout, post, body);
}

MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_lists(M& m, const Layout& layout) {
  return m.wait(layout.listed(), m.epoch() * layout.roles.count(Layout::kDispatch), -1);
}

}  // namespace mk::moe

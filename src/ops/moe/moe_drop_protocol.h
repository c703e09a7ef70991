// SPDX-License-Identifier: MIT
// ops/moe/moe_drop_protocol.h — before pairs are routed: which of them are dropped, where a rank has no room for all.
//
//   role       waits for                                       tells
//   dispatch   tallied, tallies_summed, cut, of this rank's    the same; claimed[this rank] here, at the node and at
//              workers; claimed[rank], of all ranks            the rails (put); claimed[rail peer] at the node
//
// Every rank tells all others how many pairs of each slot it has for each rank.  A rank's room goes to pairs of the
// first slot, then of the second, and so on; in the slot that no longer fits it goes by rank and token.  So each rank
// knows from the claims of all which of its own pairs are dropped (RankCut), and writes the ids that are left: what
// comes after sees only those.  A worker counts the slices whose ids it wrote; whoever reads others has waited for all
// counts.
//
// A body has: tally(m, slice) and sum(m, table, word), which count this rank's pairs; claim(m), its Claims; cut(m, to),
// the RankCut for a rank; keep(m, slice), the ids that are left; report_dropped(m), for the caller.
#pragma once

#include "base/macros.h"
#include "core/machine.h"
#include "ops/moe/moe_layout.h"
#include "ops/moe/moe_notice.h"

namespace mk::moe {

// Tells that this worker is done with its part, and waits until all dispatch workers of the rank are.
MK_PROTOCOL
template <Machine M>
MK_HD bool join(M& m, const Post& post, uint32_t signal) {
  m.add(Signal{m.rank(), signal}, 1);
  return m.wait(signal, m.epoch() * post.count, -1);
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD MK_INLINE bool drop_what_does_not_fit(M& m, const Layout& layout, const Post& post, Body& body) {
  const int slices = layout.num_slices(body.tokens());
  for (int slice = post.index; slice < slices; slice += post.count) body.tally(m, slice);
  if (!join(m, post, layout.tallied())) return false;
  const Table tallies = layout.tallies();
  for (int word = post.index; word < tallies.words; word += post.count) body.sum(m, tallies, word);
  if (!join(m, post, layout.tallies_summed())) return false;
  const ClaimsNotice claims{layout, m.epoch()};
  if (post.index == 0) {
    body.claim(m);
    if (!publish(m, claims) || !pass_on(m, layout, claims)) return false;
  }
  if (!wait_for_all(m, claims)) return false;
  for (int to = post.index; to < m.world().size(); to += post.count) body.cut(m, to);
  if (!join(m, post, layout.cut())) return false;
  if (post.index == 0) body.report_dropped(m);
  for (int slice = post.index; slice < slices; slice += post.count) body.keep(m, slice);
  return true;
}

}  // namespace mk::moe

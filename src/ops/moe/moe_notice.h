// SPDX-License-Identifier: MIT
// ops/moe/moe_notice.h — words that each rank tells all others at the start of a launch: inside the node by a copy, to
// the rails by a put, and there the rail peer passes them on.
//
// They lie in one of two places, by the launch's parity, and so do their signals, which are stamps.  Whoever begins
// launch e+2 has the notices of all ranks of e+1, so nobody reads those of e any more; and a put that has completed may
// not have landed, so a notice of e+1 may land before that of e.
#pragma once

#include "base/macros.h"
#include "core/machine.h"
#include "core/schedule.h"
#include "core/stamp.h"
#include "ops/moe/moe_layout.h"

namespace mk::moe {

// All stamps of a launch are this one.
MK_HD constexpr uint64_t here_in(uint64_t epoch) { return stamp_of(epoch, 1); }

// How many rows each expert gets of a rank.
struct CountsNotice {
  const Layout& layout;
  uint64_t epoch;
  MK_HD Place at(int rank, int of) const { return layout.counts_at(rank, of, epoch); }
  MK_HD uint64_t bytes() const { return layout.counts_bytes(); }
  MK_HD uint32_t signal(int of) const { return layout.counted(of, epoch); }
};

// How much room it would need.
struct ClaimsNotice {
  const Layout& layout;
  uint64_t epoch;
  MK_HD Place at(int rank, int of) const { return layout.claims_at(rank, of, epoch); }
  MK_HD uint64_t bytes() const { return layout.claims_bytes(); }
  MK_HD uint32_t signal(int of) const { return layout.claimed(of, epoch); }
};

// This rank's, to its own workers, to the node and to the rails.
MK_PROTOCOL
template <Machine M, class Notice>
MK_HD bool publish(M& m, const Notice& notice) {
  const Place own = notice.at(m.rank(), m.rank());
  for (int step = 1; step < m.world().nodes; ++step) {
    const int peer = rail_peer_at(m.world(), m.rank(), step);
    const Put put{.from = own,
                  .to = notice.at(peer, m.rank()),
                  .bytes = notice.bytes(),
                  .signal = {peer, notice.signal(m.rank())},
                  .stamp = here_in(m.epoch())};
    if (!m.put(put, -1)) return false;
  }
  m.stamp(Signal{m.rank(), notice.signal(m.rank())}, here_in(m.epoch()));
  for (int step = 1; step < m.world().ranks; ++step) {
    const int peer = peer_at(m.world(), m.rank(), step);
    m.copy(notice.at(peer, m.rank()), own, notice.bytes());
    m.stamp(Signal{peer, notice.signal(m.rank())}, here_in(m.epoch()));
  }
  return true;
}

MK_PROTOCOL
template <Machine M, class Notice>
MK_HD bool wait_for_notice(M& m, const Notice& notice, int of) {
  return m.wait_stamp(notice.signal(of), here_in(m.epoch()), -1);
}

MK_PROTOCOL
template <Machine M, class Notice>
MK_HD bool wait_for_all(M& m, const Notice& notice) {
  for (int rank = 0; rank < m.world().size(); ++rank) {
    if (!wait_for_notice(m, notice, rank)) return false;
  }
  return true;
}

// What came over the rail, to the peers of the node.
MK_PROTOCOL
template <Machine M, class Notice>
MK_HD bool pass_on(M& m, const Layout& layout, const Notice& notice) {
  for (int step = 1; step < m.world().nodes; ++step) {
    const int from = m.world().rank_at(layout.source_node_at(m.rank(), step), m.world().local_of(m.rank()));
    if (!wait_for_notice(m, notice, from)) return false;
    for (int to = 1; to < m.world().ranks; ++to) {
      const int peer = peer_at(m.world(), m.rank(), to);
      m.copy(notice.at(peer, from), notice.at(m.rank(), from), notice.bytes());
      m.stamp(Signal{peer, notice.signal(from)}, here_in(m.epoch()));
    }
  }
  return true;
}

}  // namespace mk::moe

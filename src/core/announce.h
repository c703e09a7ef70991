// SPDX-License-Identifier: MIT
// core/announce.h — how a rank announces that it has begun a launch.
//
// Launches of a rank follow each other, so a rank that has begun launch e+1 has finished e, and others may write into
// its windows again.  `signal` is the counter that stands for the caller at each peer; node peers are told by an add,
// rail peers by a put without bytes.
#pragma once

#include "base/macros.h"
#include "core/machine.h"
#include "core/schedule.h"

namespace mk {

MK_PROTOCOL
template <Machine M>
MK_HD void announce_to_node(M& m, uint32_t signal) {
  for (int step = 1; step < m.world().ranks; ++step) {
    m.add(Signal{peer_at(m.world(), m.rank(), step), signal}, 1);
  }
}

// `window` is any of the plan's: a put has places even when it has no bytes.
MK_PROTOCOL
template <Machine M>
MK_HD bool announce_to_rails(M& m, uint32_t signal, uint32_t window) {
  for (int step = 1; step < m.world().nodes; ++step) {
    const int peer = rail_peer_at(m.world(), m.rank(), step);
    if (!m.put(Put{Place{window, m.rank(), 0}, Place{window, peer, 0}, 0, Signal{peer, signal}}, -1)) return false;
  }
  return true;
}

}  // namespace mk

// SPDX-License-Identifier: MIT
// bench/pace.h — the arithmetic of a link that is slowed down on purpose.
//
// Ranks that share a GPU have a share of its compute each; a benchmark gives them the same share of every
// link, so that all ratios of the real machine stay.  A link carries one transfer after the other: each
// reserves the time its bytes take, from when the link is free, and is over no earlier than that.  Times
// are nanoseconds of whatever clock the caller reads.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "bench/nic_queue.h"

namespace mk {

// A link that the workers of a rank share: the word says when it is free, on the GPU's clock.
struct LinkPace {
  uint64_t* free_at = nullptr;
  double ns_per_byte = 0;  // 0: as fast as it is
};

// What a paced kernel takes.
struct RankPace {
  LinkPace nvlink;
  NicQueue nic;
};

struct Reservation {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Rounded up: no transfer is faster than its link.
MK_HD constexpr uint64_t duration_ns(uint64_t bytes, double ns_per_byte) {
  const double exact = static_cast<double>(bytes) * ns_per_byte;
  const uint64_t whole = static_cast<uint64_t>(exact);
  return whole + (static_cast<double>(whole) < exact ? 1 : 0);
}
MK_HD constexpr Reservation reserve(uint64_t now, uint64_t free_at, uint64_t bytes, double ns_per_byte) {
  const uint64_t begin = now > free_at ? now : free_at;
  return {begin, begin + duration_ns(bytes, ns_per_byte)};
}

}  // namespace mk

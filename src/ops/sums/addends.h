// SPDX-License-Identifier: MIT
// ops/sums/addends.h — which images of a tile are summed, and in which order.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "core/machine.h"
#include "core/window.h"

namespace mk::sums {

// Images of one tile at equal distances.
struct Addends {
  Place first;
  uint64_t stride = 0;  // bytes
  int number = 0;

  MK_HD constexpr int count() const { return number; }
  MK_HD constexpr Place at(int i) const {
    return Place{first.window, first.rank, first.offset + static_cast<uint64_t>(i) * stride};
  }
};

// All that makes a result, node after node: `position` sums of other nodes, what the own node has, the sums of the
// nodes after it.  Added in fp32, one image after the other; the result is rounded once.
struct NodeSums {
  Addends own;
  Addends others;
  int position = 0;

  MK_HD constexpr int count() const { return own.number + others.number; }
  // own_at(j) or others_at(j), whichever the i-th of all is.
  template <class OwnAt, class OthersAt>
  MK_HD constexpr auto pick(int i, OwnAt&& own_at, OthersAt&& others_at) const {
    if (i < position) return others_at(i);
    return i < position + own.number ? own_at(i - position) : others_at(i - own.number);
  }
  MK_HD constexpr Place at(int i) const {
    return pick(
        i, [this](int j) { return own.at(j); }, [this](int j) { return others.at(j); });
  }
};

MK_PROTOCOL
template <Machine M>
MK_HD void load_all(M& m, const Addends& addends, uint64_t tile_bytes) {
  for (int i = 0; i < addends.count(); ++i) m.load(addends.at(i), tile_bytes);
}

}  // namespace mk::sums

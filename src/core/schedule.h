// SPDX-License-Identifier: MIT
// core/schedule.h — orders of visit, as pure functions.
//
// A receiver takes sources in the order self, self+1, self+2, …; a sender serves destinations in the order self-1,
// self-2, ….  So at every step all receivers read different sources, and a sender serves first the receiver that needs
// it first.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/math.h"
#include "core/world_shape.h"

namespace mk {

// The rank whose data `rank` consumes at `step` of world.size(): itself, the peers of its node, then
// node after node, there the one on its own rail first, because that one arrives first.
MK_HD constexpr int source_at(const WorldShape& world, int rank, int step) {
  const int node = wrap(world.node_of(rank) + step / world.ranks, world.nodes);
  const int local = wrap(world.local_of(rank) + step % world.ranks, world.ranks);
  return world.rank_at(node, local);
}

// The peer in the node that `rank` serves at `step` of 1 … ranks-1.
MK_HD constexpr int peer_at(const WorldShape& world, int rank, int step) {
  return world.rank_at(world.node_of(rank), wrap(world.local_of(rank) - step, world.ranks));
}

// The rank on the same rail that `rank` serves at `step` of 1 … nodes-1.
MK_HD constexpr int rail_peer_at(const WorldShape& world, int rank, int step) {
  return world.rank_at(wrap(world.node_of(rank) - step, world.nodes), world.local_of(rank));
}

// The node for which `node` works at `step` of `nodes`: the others first, so that what has to cross the
// network is made early, itself last.
MK_HD constexpr int served_node_at(int node, int step, int nodes) { return wrap(node + 1 + step, nodes); }

struct GridPos {
  int row = 0;
  int col = 0;
};

struct GroupPos {
  int group = 0;
  GridPos at;
};

// Walks `groups` grids of rows × cols in bands of `band` rows: the first band of every grid, then the
// second of every grid, …; column after column inside a band.  Neighbours in the walk share operands, so
// what one loads the next finds in the cache.  32 bits and few divisions: the first copy of a launch waits for this.
MK_HD constexpr GroupPos banded_groups(int step, int groups, int rows, int cols, int band) {
  const int per_band = band * cols * groups;
  const int bands_before = quotient(step, per_band);
  const int first = bands_before * band;
  const int height = min_of(band, rows - first);
  const int per_group = height * cols;
  const int rest = step - bands_before * per_band;
  const int group = quotient(rest, per_group);
  const int inside = rest - group * per_group;
  const int col = quotient(inside, height);
  return {group, {first + inside - col * height, col}};
}

// The same for one grid.
MK_HD constexpr GridPos banded(int step, int rows, int cols, int band) {
  return banded_groups(step, 1, rows, cols, band).at;
}

// The same walk, prepared on the host: a step takes no division and no branch.  rows × cols is below 2^31.
class Bands {
 public:
  constexpr Bands() = default;
  constexpr Bands(int rows, int cols, int band) {
    const int height = min_of(band, rows);
    per_band_ = Divider(height * cols);
    height_ = Divider(height);
    last_height_ = Divider(rows % height == 0 ? height : rows % height);
    whole_ = rows / height;
  }

  MK_HD constexpr GridPos at(int step) const {
    const int bands_before = per_band_.quotient(step);
    const Divider height = bands_before == whole_ ? last_height_ : height_;
    const int inside = step - bands_before * per_band_.by();
    const int col = height.quotient(inside);
    return {bands_before * height_.by() + inside - col * height.by(), col};
  }

 private:
  Divider per_band_;
  Divider height_;
  Divider last_height_;
  int whole_ = 0;  // bands of full height
};

}  // namespace mk

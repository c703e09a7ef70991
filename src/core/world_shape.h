// SPDX-License-Identifier: MIT
// core/world_shape.h — how ranks are numbered: rank = node · ranks + local.
//
// Ranks with the same `local` share a rail: traffic between nodes travels on rails only.
#pragma once

#include "base/macros.h"

namespace mk {

struct WorldShape {
  int nodes = 1;
  int ranks = 1;  // per node

  MK_HD constexpr int size() const { return nodes * ranks; }
  MK_HD constexpr int node_of(int rank) const { return rank / ranks; }
  MK_HD constexpr int local_of(int rank) const { return rank % ranks; }
  MK_HD constexpr int rank_at(int node, int local) const { return node * ranks + local; }
  MK_HD constexpr bool same_node(int a, int b) const { return node_of(a) == node_of(b); }
};

}  // namespace mk

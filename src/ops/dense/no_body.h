// SPDX-License-Identifier: MIT
// ops/dense/no_body.h — a body that does nothing: for the ledger, and for simulated runs without data.
#pragma once

#include "core/tile.h"
#include "ops/dense/addends.h"

namespace mk::dense {

struct NoBody {
  void load(const Tile&) {}
  void multiply(const Tile&) {}
  void hand_over() {}
  void store(const Tile&, const Place&) {}
  void write(const Tile&) {}
  void sum(const Tile&, const Addends&, const Place&) {}
  void finish(const Tile&, const NodeSums&) {}
  void finish_to(const Tile&, const NodeSums&, const Place&) {}
  void take(const Tile&, const Place&) {}
};

}  // namespace mk::dense

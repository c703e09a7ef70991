// SPDX-License-Identifier: MIT
// ops/gemm/gemm_no_body.h — a body that does nothing, for the ledger.
#pragma once

#include "core/tile.h"
#include "ops/sums/addends.h"

namespace mk::gemm {

struct NoBody {
  void load(const Tile&) {}
  void multiply(const Tile&) {}
  void hand_over() {}
  void store(const Tile&, const Place&) {}
  void write(const Tile&) {}
  void sum(const Tile&, const sums::Addends&, const Place&) {}
  void finish(const Tile&, const sums::NodeSums&) {}
  void finish_to(const Tile&, const sums::NodeSums&, const Place&) {}
  void take(const Tile&, const Place&) {}
};

}  // namespace mk::gemm

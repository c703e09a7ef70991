// SPDX-License-Identifier: MIT
// bench/fused.h — the fused operators with M, N and K a benchmark can run: a row of one table each.
#pragma once

#include <span>

#include "bench/operands.h"
#include "bench/pace.h"
#include "mkernel/options.h"
#include "runtime/world_state.h"
#include "tools/judge.h"

namespace mk::bench {

struct FusedRun {
  runtime::WorldState& world;
  const BenchCase& shape;
  const Split& split;
  std::span<const RankTensors> tensors;  // by rank
  std::span<const RankPace> paces;       // by rank
};

struct FusedOperator {
  OpKind op;

  // Queue one launch on every rank's own stream.
  void (*launch)(const FusedRun& run);
  void (*launch_paced)(const FusedRun& run);  // with links paced by run.paces

  // Judges the outputs of a set.
  tools::CheckResult (*check)(const BenchCase& shape, Operands& operands, runtime::Device& device, int set);
};

const FusedOperator& fused_operator(OpKind op);

}  // namespace mk::bench

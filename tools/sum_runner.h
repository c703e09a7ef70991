// SPDX-License-Identifier: MIT
// tools/sum_runner.h — runs and checks an operator that sums products over ranks.
#pragma once

#include <span>

#include "launches.h"
#include "mkernel/gemm_args.h"
#include "ops/gemm/gemm_problem.h"
#include "ops/tile_image.h"
#include "request.h"

namespace mk::tools {

// What such operators differ in.
struct SumOperator {
  const char* name;
  Output output;  // which rows a rank's C has

  // Refuses a bad shape.
  int64_t (*workspace_bytes)(const World& world, const Row& row);
  const runtime::Plan& (*plan)(runtime::WorldState& world, const gemm::Problem& problem, const Split& split);
  void (*launch)(World& world, std::span<const GemmArgs> args, const Split& split);
};

Row run_sum(const SumOperator& op, World& world, const RunRequest& request);

}  // namespace mk::tools

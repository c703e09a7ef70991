// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_fuzz.cc — see ag_gemm_fuzz.h.
#include "ops/ag_gemm/ag_gemm_fuzz.h"

#include "ops/ag_gemm/ag_gemm_configs.h"

namespace mk::ag_gemm_op {

Layout draw_layout(sim::Random& random, const FuzzLimits& limits) {
  const WorldShape world = draw_world(random, limits);
  const int64_t shard_rows = 1 + random.below(2 * kSimTile.m + 1);
  const Problem problem = gemm::draw_problem(random, limits, world, kSimTile, shard_rows * world.size());
  const auto up_to = [&](bool needed, int most) { return needed ? 1 + static_cast<int>(random.below(most)) : 0; };
  const int intra = up_to(world.ranks > 1, 2);
  const int send = up_to(world.nodes > 1, 2);
  const int compute = up_to(true, 3);
  check_problem(problem, DeviceKind::kCpu);
  return make_layout(problem, kSimTile, roster(intra, send, compute));
}

}  // namespace mk::ag_gemm_op

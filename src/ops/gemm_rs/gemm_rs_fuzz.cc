// SPDX-License-Identifier: MIT
// ops/gemm_rs/gemm_rs_fuzz.cc — see gemm_rs_fuzz.h.
#include "ops/gemm_rs/gemm_rs_fuzz.h"

#include "ops/gemm_rs/gemm_rs_configs.h"

namespace mk::gemm_rs_op {

Layout draw_layout(sim::Random& random, const FuzzLimits& limits) {
  const WorldShape world = draw_world(random, limits);
  const int64_t shard_rows = 1 + random.below(2 * kSimTile.m + 1);
  const Problem problem = gemm::draw_problem(random, limits, world, kSimTile, shard_rows * world.size());
  const int reduce = world.size() > 1 ? 1 + static_cast<int>(random.below(3)) : 0;
  const int compute = 1 + static_cast<int>(random.below(3));
  check_problem(problem, DeviceKind::kCpu);
  return make_layout(problem, kSimTile, roster(reduce, compute));
}

}  // namespace mk::gemm_rs_op

// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_fuzz.cc — see gemm_ar_fuzz.h.
#include "ops/gemm_ar/gemm_ar_fuzz.h"

#include "ops/gemm_ar/gemm_ar_configs.h"
#include "ops/gemm_ar/gemm_ar_problem.h"

namespace mk::gemm_ar_op {
namespace {

Roster draw_roles(sim::Random& random, const WorldShape& world, AllReducePath path) {
  const bool has_others = world.size() > 1;
  const int reduce = has_others ? 1 + static_cast<int>(random.below(2)) : 0;
  const int intra = has_others && path == AllReducePath::kTwoShot ? 1 + static_cast<int>(random.below(2)) : 0;
  const int compute = 1 + static_cast<int>(random.below(3));
  return roster(path, intra, reduce, compute);
}

}  // namespace

TwoShotLayout draw_two_shot(sim::Random& random, const FuzzLimits& limits) {
  const WorldShape world = draw_world(random, limits);
  const int64_t shard_rows = 1 + random.below(2 * kSimTile.m + 1);
  const Problem problem = gemm::draw_problem(random, limits, world, kSimTile, shard_rows * world.size());
  check_problem(problem, AllReducePath::kTwoShot, DeviceKind::kCpu);
  return make_two_shot(problem, kSimTile, draw_roles(random, world, AllReducePath::kTwoShot));
}

OneShotLayout draw_one_shot(sim::Random& random, const FuzzLimits& limits) {
  const WorldShape world = draw_world(random, limits);
  const int64_t rows = 1 + random.below(4 * kSimTile.m);
  const Problem problem = gemm::draw_problem(random, limits, world, kSimTile, rows);
  check_problem(problem, AllReducePath::kOneShot, DeviceKind::kCpu);
  return make_one_shot(problem, kSimTile, draw_roles(random, world, AllReducePath::kOneShot));
}

}  // namespace mk::gemm_ar_op

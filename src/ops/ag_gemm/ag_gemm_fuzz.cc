// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_fuzz.cc — see ag_gemm_fuzz.h.
#include "ops/ag_gemm/ag_gemm_fuzz.h"

#include "base/check.h"
#include "ops/ag_gemm/ag_gemm_configs.h"

namespace mk::ag_gemm_op {
namespace {

Layout draw_layout(sim::Random& random, const FuzzLimits& limits) {
  const WorldShape world = draw_world(random, limits);
  const int64_t shard_rows = 1 + random.below(2 * kSimTile.m + 1);
  const int64_t n = 1 + random.below(2 * kSimTile.n + 1);
  const int64_t k = 1 + random.below(3);
  const auto up_to = [&](bool needed, int most) { return needed ? 1 + static_cast<int>(random.below(most)) : 0; };
  const int intra = up_to(world.ranks > 1, 2);
  const int send = up_to(world.nodes > 1, 2);
  const int compute = up_to(true, 3);
  const Problem problem{world, limits.m.value_or(shard_rows * world.size()), limits.n.value_or(n), limits.k.value_or(k),
                        DType::kFp32};
  check_problem(problem, DeviceKind::kCpu);
  constexpr int64_t kMost = 4096;  // a fuzzed run has data, and there are many of them
  check_arg(problem.m <= kMost, "m is {}; a fuzzed run takes at most {}", problem.m, kMost);
  check_arg(problem.n <= kMost, "n is {}; a fuzzed run takes at most {}", problem.n, kMost);
  check_arg(problem.k <= kMost, "k is {}; a fuzzed run takes at most {}", problem.k, kMost);
  return make_layout(problem, kSimTile, roster(intra, send, compute));
}

}  // namespace

FuzzRun::FuzzRun(uint64_t seed, const FuzzLimits& limits, bool traced) {
  sim::Random random(seed);
  layout_ = draw_layout(random, limits);
  launches_ = draw_launches(random, limits);
  data_ = std::make_unique<SimData>(layout_, launches_, random.next());
  sim::SimSpec spec = sim_spec(layout_, data_.get());
  disturb(spec, random, random.next());
  spec.traced = traced;
  world_ = std::make_unique<sim::SimWorld>(spec);
}

std::string FuzzRun::describe() const {
  const Roster& roles = layout_.roles;
  return fmt::format("{}x{}, m {}, n {}, k {}, intra {} send {} compute {}, {} launches, ring of {}",
                     layout_.world.nodes, layout_.world.ranks, layout_.shard_rows * layout_.world.size(), layout_.n,
                     layout_.k, roles.count(Layout::kIntra), roles.count(Layout::kSend), roles.num_compute(), launches_,
                     core().spec.ring_capacity);
}

}  // namespace mk::ag_gemm_op

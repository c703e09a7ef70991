// SPDX-License-Identifier: MIT
// tools/sim_operators.cc — the table, and its row for AllGather+GEMM.
#include "sim_operators.h"

#include "ops/ag_gemm/ag_gemm_configs.h"
#include "ops/ag_gemm/ag_gemm_fuzz.h"
#include "target/sim/chrome_trace.h"

namespace mk::tools {
namespace {

FuzzOutcome fuzz_ag_gemm(uint64_t seed, const FuzzLimits& limits, std::ostream* trace) {
  ag_gemm_op::FuzzRun run(seed, limits, trace != nullptr);
  run.run();
  if (trace != nullptr) sim::write_chrome_trace(*trace, run.core());
  return {run.describe(), run.core().complaints()};
}

Prediction predict_ag_gemm(const Cluster& cluster, const SimRequest& request) {
  const ag_gemm_op::Problem problem{cluster.world, request.m, request.n.value_or(request.m / 16),
                                    request.k.value_or(request.m), request.dtype};
  ag_gemm_op::check_problem(problem, DeviceKind::kCuda);
  const RoleCounts roles = ag_gemm_op::choose_roles(problem, {}, cluster.sms);
  const ag_gemm_op::Layout layout = ag_gemm_op::make_layout(problem, ag_gemm_op::kSm90Tile, roles);
  sim::SimSpec spec = ag_gemm_op::sim_spec(layout, nullptr);
  spec.costs = cluster.costs;
  sim::SimWorld world(spec);
  ag_gemm_op::simulate_world(world, layout, 1, nullptr);
  if (world.core().stopped()) throw std::runtime_error(world.core().complaints().front().text);
  return predict(world, 2.0 * problem.m * problem.n * problem.k);
}

constexpr SimOperator kSimOperators[] = {{"ag_gemm", fuzz_ag_gemm, predict_ag_gemm}};

}  // namespace

std::span<const SimOperator> sim_operators() { return kSimOperators; }

}  // namespace mk::tools

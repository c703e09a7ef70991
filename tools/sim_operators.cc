// SPDX-License-Identifier: MIT
// tools/sim_operators.cc — the table, and what its rows share.
#include "sim_operators.h"

#include <fmt/format.h>

#include "base/check.h"
#include "bench/paced_split.h"
#include "ops/ag_gemm/ag_gemm_fuzz.h"
#include "ops/gemm_ar/gemm_ar_fuzz.h"
#include "ops/gemm_ar/gemm_ar_problem.h"
#include "ops/gemm_rs/gemm_rs_fuzz.h"
#include "ops/split.h"
#include "target/sim/chrome_trace.h"
#include "target/sm90/communication_block.h"

namespace mk::tools {
namespace {

template <class Run>
FuzzOutcome outcome_of(Run& run, std::ostream* trace) {
  run.run();
  if (trace != nullptr) sim::write_chrome_trace(*trace, run.core());
  return {run.describe(), run.core().complaints()};
}

template <class Run>
FuzzOutcome fuzz(uint64_t seed, const FuzzLimits& limits, std::ostream* trace) {
  Run run(seed, limits, trace != nullptr ? Tracing::kOn : Tracing::kOff);
  return outcome_of(run, trace);
}

Prediction prediction_of(const sim::SimWorld& world, const SimRequest& request) {
  if (world.core().stopped()) throw std::runtime_error(world.core().complaints().front().text);
  return predict(
      world, 2.0 * static_cast<double>(request.m) * static_cast<double>(*request.n) * static_cast<double>(*request.k));
}

Seats seats_of(const Cluster& cluster) { return {cluster.sms, sm90::kWorkersPerSm}; }

// What the request says, or what leaves room for the NIC where a warp plays it.
Split split_for(const Cluster& cluster, const SimRequest& request, std::span<const RoleName> names,
                const Roster& chosen) {
  if (!request.split.empty() || !cluster.warp_plays_nic()) return request.split;
  return split_of(names, bench::with_room_for_nic(names, chosen));
}

template <class Layout>
Prediction predict_layout(const Layout& layout, const Cluster& cluster, const SimRequest& request) {
  constexpr int64_t kMostWorkers = 1 << 18;  // 1.5 GiB of stacks
  const int64_t workers = int64_t{layout.world.size()} * layout.roles.total();
  check_arg(workers <= kMostWorkers, "the world has {} workers with {}; at most {} are simulated", workers,
            in_words(Layout::kRoles, layout.roles), kMostWorkers);
  sim::SimSpec spec = gemm::sim_spec(layout, nullptr);
  spec.costs = cluster.costs;
  spec.workers_per_sm = sm90::kWorkersPerSm;
  spec.nic_on_sm = cluster.warp_plays_nic();
  sim::SimWorld world(spec);
  gemm::simulate_world(world, layout, 1, nullptr);
  Prediction prediction = prediction_of(world, request);
  const int cluster_size = layout.cluster;
  prediction.tile = {layout.image().tile_m / cluster_size, layout.image().tile_n, cluster_size};
  return prediction;
}

Prediction predict_ag_gemm(const Cluster& cluster, const SimRequest& request) {
  const gemm::Problem problem{cluster.world, request.m, *request.n, *request.k, request.dtype};
  ag_gemm_op::check_problem(problem, DeviceKind::kCuda);
  const Seats seats = seats_of(cluster);
  const Split split =
      split_for(cluster, request, ag_gemm_op::Layout::kRoles, ag_gemm_op::choose_roles(problem, request.split, seats));
  return predict_layout(ag_gemm_op::layout_for(problem, {.split = split}, seats, DeviceKind::kCuda), cluster, request);
}

Prediction predict_gemm_rs(const Cluster& cluster, const SimRequest& request) {
  const gemm::Problem problem{cluster.world, request.m, *request.n, *request.k, request.dtype};
  gemm_rs_op::check_problem(problem, DeviceKind::kCuda);
  const Seats seats = seats_of(cluster);
  const Split split =
      split_for(cluster, request, gemm_rs_op::Layout::kRoles, gemm_rs_op::choose_roles(problem, request.split, seats));
  return predict_layout(gemm_rs_op::layout_for(problem, split, seats, DeviceKind::kCuda), cluster, request);
}

// Even seeds run in one shot.
FuzzOutcome fuzz_gemm_ar(uint64_t seed, const FuzzLimits& limits, std::ostream* trace) {
  const bool one_shot = seed % 2 == 0;
  FuzzOutcome outcome =
      one_shot ? fuzz<gemm_ar_op::OneShotRun>(seed, limits, trace) : fuzz<gemm_ar_op::TwoShotRun>(seed, limits, trace);
  outcome.what = fmt::format("{}, {}", one_shot ? "one shot" : "two shots", outcome.what);
  return outcome;
}

Prediction predict_gemm_ar(const Cluster& cluster, const SimRequest& request) {
  const gemm::Problem problem{cluster.world, request.m, *request.n, *request.k, request.dtype};
  const AllReducePath path = gemm_ar_op::path_for(problem, AllReducePath::kAuto);
  gemm_ar_op::check_problem(problem, path, DeviceKind::kCuda);
  const Seats seats = seats_of(cluster);
  const Split split = split_for(cluster, request, gemm_ar_op::roles_of(path),
                                gemm_ar_op::choose_roles(problem, path, request.split, seats));
  return gemm_ar_op::with_layout_for(problem, path, split, seats, DeviceKind::kCuda,
                                     [&](const auto& layout) { return predict_layout(layout, cluster, request); });
}

// The defaults of n and k are those of the field's published figures for 16 ranks.
constexpr SimOperator kSimOperators[] = {
    {"ag_gemm", fuzz<ag_gemm_op::FuzzRun>, predict_ag_gemm, 16, 1},
    {"gemm_rs", fuzz<gemm_rs_op::FuzzRun>, predict_gemm_rs, 1, 16},
    {"gemm_ar", fuzz_gemm_ar, predict_gemm_ar, 1, 16},
};

}  // namespace

std::span<const SimOperator> sim_operators() { return kSimOperators; }

}  // namespace mk::tools

// SPDX-License-Identifier: MIT
// tools/sim_command.cc — `mkernel sim`: predicts one launch on a cluster nobody here owns.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "build_info.h"
#include "cluster.h"
#include "output_file.h"
#include "sim_commands.h"
#include "sim_operators.h"
#include "standard_streams.h"
#include "usage.h"

namespace mk::tools {
namespace {

void print(const Cluster& cluster, const SimRequest& request, const Prediction& p) {
  print_line("{} on {} ({}x{} ranks, {} SMs each), M {} N {} K {} {}: {}", request.op, cluster.name,
             cluster.world.nodes, cluster.world.ranks, cluster.sms, request.m, *request.n, *request.k,
             name_of(request.dtype), cluster.is_scale_model ? "calibrated" : "uncalibrated");
  print_line("time      {:12.1f} us   {:.1f} TFLOP/s per rank", p.time_us, p.tflops_per_rank);
  print_line("bound     {:12.1f} us   compute {:.1f}, NVLink {:.1f}, network {:.1f} us alone", p.bound_us(),
             p.compute_us, p.nvlink_us, p.network_us);
  print_line("overlap   {:12.3f}", p.overlap());
  print_line("tile      {:>12}", fmt::format("{}x{}x{}", p.tile.m, p.tile.n, p.tile.cluster));
  for (const RoleUse& use : p.roles) {
    print_line("{:<9} {:4} workers   busy {:5.1f} %   waiting {:5.1f} %   idle {:5.1f} %", use.role, use.workers,
               100 * use.busy, 100 * use.waiting, 100 * use.idle);
  }
}

std::string to_json(const Cluster& cluster, const SimRequest& request, const Prediction& p) {
  nlohmann::json roles = nlohmann::json::object();
  for (const RoleUse& use : p.roles) {
    roles[std::string(use.role)] = {
        {"workers", use.workers}, {"busy", use.busy}, {"waiting", use.waiting}, {"idle", use.idle}};
  }
  const nlohmann::json json = {{"op", request.op},
                               {"cluster", cluster.name},
                               {"nodes", cluster.world.nodes},
                               {"ranks", cluster.world.ranks},
                               {"sms", cluster.sms},
                               {"m", request.m},
                               {"n", *request.n},
                               {"k", *request.k},
                               {"dtype", name_of(request.dtype)},
                               {"time_us", p.time_us},
                               {"tflops_per_rank", p.tflops_per_rank},
                               {"bound_us", p.bound_us()},
                               {"overlap", p.overlap()},
                               {"nvlink_bytes", p.nvlink_bytes},
                               {"network_bytes", p.network_bytes},
                               {"roles", roles},
                               {"tile", {p.tile.m, p.tile.n, p.tile.cluster}},
                               {"calibrated", cluster.is_scale_model},
                               {"commit", MKERNEL_COMMIT}};
  // The name of a file may hold anything; JSON is UTF-8.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Refuses what would take hours to simulate, or more virtual time than fits 64 bits of picoseconds even if
// nothing overlapped.
void check_extent(const Cluster& cluster, const SimRequest& request) {
  constexpr double kTileRows = 128;
  constexpr double kTileCols = 256;
  constexpr double kMostTiles = 1 << 28;
  constexpr double kMostTime = 0x1p62;
  constexpr double kHops = 64;  // more than a tile's signals, puts and commands
  const double ranks = cluster.world.size();
  const double m = static_cast<double>(request.m);
  const double n = static_cast<double>(*request.n);
  const double tiles = ranks * (m / kTileRows + ranks) * (n / kTileCols + 1);
  check_usage(tiles <= kMostTiles,
              "--m and --n are {} and {}: {} ranks make about {:.0f} tiles of {} x {}; at most {:.0f} are simulated",
              request.m, *request.n, ranks, tiles, kTileRows, kTileCols, kMostTiles);
  const sim::Costs& costs = cluster.costs;
  const double flops = 2 * kTileRows * kTileCols * static_cast<double>(*request.k);
  // A tile of C, or for ag_gemm the rows that one needs.
  const double bytes = 2 * kTileRows * std::max(kTileCols, static_cast<double>(*request.k));
  const double on_sm = 2 / costs.copy_gb_s + 2 / costs.sm_gb_s + 2 / costs.worker_gb_s;
  const double moved = bytes * 1000 * (on_sm + 1 / costs.nvlink_gb_s + 1 / costs.nic_gb_s);
  const double latency = static_cast<double>(costs.tile_overhead + costs.nvlink_latency + costs.nic_latency +
                                             costs.proxy_per_command + costs.proxy_wake + costs.signal_latency);
  const double time = static_cast<double>(costs.launch) +
                      tiles * (flops / costs.sm_tflops + (cluster.world.ranks + 1) * moved + kHops * latency);
  check_usage(
      time <= kMostTime,
      "--cluster is '{}': at its rates and latencies --m {} --n {} --k {} may take {:.1e} us; at most {:.1e} are "
      "simulated",
      cluster.name, request.m, *request.n, *request.k, time / sim::kMicrosecond, kMostTime / sim::kMicrosecond);
}

// What the operator says about the number of workers is about the cluster here.
Prediction predict_on(const SimOperator& op, const Cluster& cluster, const SimRequest& request) {
  try {
    return op.predict(cluster, request);
  } catch (const Error& error) {
    const std::string message = error.what();
    check_usage(!message.starts_with("the world has"), "--cluster is '{}': {}", cluster.name, message);
    throw;
  }
}

}  // namespace

std::string why_no_sim() { return {}; }

int sim_command(const SimRequest& asked) {
  const Cluster cluster = load_cluster(asked.cluster);
  for (const SimOperator& op : sim_operators()) {
    if (asked.op != op.name) continue;
    SimRequest request = asked;
    request.n = asked.n.value_or(asked.m / op.n_share);
    request.k = asked.k.value_or(asked.m / op.k_share);
    OutputFile json("--json", request.json);
    check_extent(cluster, request);
    const Prediction prediction = predict_on(op, cluster, request);
    print(cluster, request, prediction);
    json.append(to_json(cluster, request, prediction));
    json.close();
  }
  return kExitCorrect;
}

}  // namespace mk::tools

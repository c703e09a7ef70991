// SPDX-License-Identifier: MIT
// tools/report.cc — see report.h.
#include "report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "build_info.h"

namespace mk::tools {
namespace {

constexpr auto kLine = "{:<10} {:<6} {:<22} {:>10} {:>12} {:>12} {:>13} {:>9}  {}";

struct Unit {
  double size;
  const char* name;
};

// In the largest unit that is not above the value; units go down.
template <size_t kCount>
std::string in_units(double value, const Unit (&units)[kCount]) {
  for (const Unit& unit : units) {
    if (value >= unit.size) return fmt::format("{:.3g} {}", value / unit.size, unit.name);
  }
  return fmt::format("{:.3g} {}", value / units[kCount - 1].size, units[kCount - 1].name);
}

std::string time_text(double us) {
  constexpr Unit kUnits[] = {{1e6, "s"}, {1e3, "ms"}, {1, "us"}};
  return in_units(us, kUnits);
}

std::string bytes_text(uint64_t bytes) {
  constexpr Unit kUnits[] = {{0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {1, "B"}};
  return in_units(static_cast<double>(bytes), kUnits);
}

}  // namespace

std::string table_header() {
  return fmt::format(kLine, "operator", "world", "shape (MxNxK)", "time", "TFLOP/s/rank", "NVLink/rank", "network/rank",
                     "error", "verdict");
}

std::string table_row(const Row& row) {
  const std::string verdict = row.correct() ? "correct" : fmt::format("WRONG: {} elements", row.check.wrong);
  return fmt::format(kLine, row.op, fmt::format("{}x{}", row.nodes, row.ranks),
                     fmt::format("{}x{}x{} {}", row.m, row.n, row.k, name_of(row.dtype)), time_text(row.time_us),
                     fmt::format("{:.3g}", row.tflops_per_rank), bytes_text(row.nvlink_bytes),
                     bytes_text(row.network_bytes), fmt::format("{:.2e}", row.check.error), verdict);
}

std::string stats_row(const Row& row) {
  const NetworkStats& stats = row.network.stats;
  if (stats.batches == 0) return {};
  const bool has_way = row.device == DeviceKind::kCuda && !row.reach.empty();
  const std::string fabric = has_way ? fmt::format("{} ({})", row.fabric, row.reach) : row.fabric;
  return fmt::format("  {} over {}: {} commands as {} puts, {}; {:.3g} commands at once, {} at most; {} times full",
                     row.op, fabric, stats.commands, stats.puts, bytes_text(stats.bytes),
                     static_cast<double>(stats.commands) / static_cast<double>(stats.batches), stats.largest_batch,
                     stats.full);
}

std::string to_json(const Row& row) {
  const NetworkStats& stats = row.network.stats;
  const nlohmann::ordered_json json = {
      {"op", row.op},
      {"device", name_of(row.device)},
      {"device_name", row.device_name},
      {"nodes", row.nodes},
      {"ranks", row.ranks},
      {"launcher", row.launcher},
      {"fabric", row.fabric},
      {"reach", row.reach},
      {"m", row.m},
      {"n", row.n},
      {"k", row.k},
      {"dtype", name_of(row.dtype)},
      {"launches", row.launches},
      {"seed", row.seed},
      {"time_us", row.time_us},
      {"tflops_per_rank", row.tflops_per_rank},
      {"nvlink_bytes", row.nvlink_bytes},
      {"network_bytes", row.network_bytes},
      {"workspace_bytes", row.workspace_bytes},
      {"proxies",
       {{"commands", stats.commands},
        {"puts", stats.puts},
        {"bytes", stats.bytes},
        {"batches", stats.batches},
        {"largest_batch", stats.largest_batch},
        {"full", stats.full}}},
      {"error", row.check.error},
      {"bound", row.check.bound},
      {"wrong", row.check.wrong},
      {"correct", row.correct()},
      {"commit", MKERNEL_COMMIT},
  };
  return json.dump();
}

}  // namespace mk::tools

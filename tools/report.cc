// SPDX-License-Identifier: MIT
// tools/report.cc — see report.h.
#include "report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "build_info.h"

namespace mk::tools {
namespace {

constexpr auto kLine = "{:<18} {:<6} {:<26} {:>10} {:>12} {:>12} {:>13} {:>9}  {}";

struct PrintedUnit {
  double size;
  const char* name;
};

// In the largest unit that is not above the value; units go down.
template <size_t kCount>
std::string in_units(double value, const PrintedUnit (&units)[kCount]) {
  for (const PrintedUnit& unit : units) {
    if (value >= unit.size) return fmt::format("{:.3g} {}", value / unit.size, unit.name);
  }
  return fmt::format("{:.3g} {}", value / units[kCount - 1].size, units[kCount - 1].name);
}

std::string time_text(double us) {
  constexpr PrintedUnit kUnits[] = {{1e6, "s"}, {1e3, "ms"}, {1, "us"}};
  return in_units(us, kUnits);
}

std::string bytes_text(uint64_t bytes) {
  constexpr PrintedUnit kUnits[] = {{0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {1, "B"}};
  return in_units(static_cast<double>(bytes), kUnits);
}

std::string op_text(const Row& row) {
  const bool is_backward = (row.moe && row.moe->direction == Direction::kBackward) ||
                           (row.attention && row.attention->direction == Direction::kBackward);
  return is_backward ? row.op + " bwd" : row.op;
}

}  // namespace

std::string mask_text(const AttentionMask& mask) {
  return mask.window ? fmt::format("window={}", *mask.window) : name_of(mask.kind);
}

namespace {

// --packed, with what follows it.
std::string packed_flag(const std::vector<int32_t>& cu_seqlens) {
  std::string lengths;
  for (size_t i = 1; i < cu_seqlens.size(); ++i) {
    lengths += fmt::format("{}{}", i == 1 ? " --packed " : ",", cu_seqlens[i] - cu_seqlens[i - 1]);
  }
  return lengths;
}

// "2x 512x4:2x32 causal": two sequences of 512 with four heads of queries, two of keys, 32 elements each.  "9 in
// 512x…": nine that are packed.
std::string attention_text(const Row& row) {
  const AttentionFields& fields = *row.attention;
  const std::string batch = fields.batch > 1 ? fmt::format("{}x ", fields.batch) : "";
  const std::string packed = fields.cu_seqlens.empty() ? "" : fmt::format("{} in ", fields.cu_seqlens.size() - 1);
  return fmt::format("{}{}{}x{}:{}x{} {} {}", packed, batch, fields.seq, fields.heads, fields.kv_heads, row.k,
                     mask_text(fields.mask), name_of(row.dtype));
}

// A mixture of experts has rows by the routing.
std::string shape_text(const Row& row) {
  if (row.attention) return attention_text(row);
  const std::string shape = fmt::format("{}x{}x{} {}", row.m, row.n, row.k, name_of(row.dtype));
  return row.moe ? fmt::format("{} E{}k{}", shape, row.moe->experts, row.moe->topk) : shape;
}

}  // namespace

std::string shape_flags(const Row& row) {
  if (row.attention) {
    const AttentionFields& fields = *row.attention;
    return fmt::format(
        "--batch {} --seq {} --heads {} --kv-heads {} --head-dim {} --mask {} --layout {} --scale {}{}{} --direction "
        "{}",
        fields.batch, fields.seq, fields.heads, fields.kv_heads, row.k, mask_text(fields.mask), name_of(fields.layout),
        fields.scale, fields.sink ? " --sink" : "", packed_flag(fields.cu_seqlens), name_of(fields.direction));
  }
  if (!row.moe) return fmt::format("--m {} --n {} --k {}", row.m, row.n, row.k);
  const std::string room = row.moe->max_rows ? fmt::format(" --max-rows {}", *row.moe->max_rows) : "";
  return fmt::format(
      "--tokens {} --hidden {} --inter {} --experts {} --topk {} --routing {} --direction {} --clamp {}{}",
      row.moe->tokens, row.k, row.n, row.moe->experts, row.moe->topk, name_of(row.moe->routing),
      name_of(row.moe->direction), row.moe->clamp, room);
}

std::string table_header() {
  return fmt::format(kLine, "operator", "world", "shape (MxNxK)", "time", "TFLOP/s/rank", "NVLink/rank", "network/rank",
                     "error", "verdict");
}

std::string table_row(const Row& row) {
  const std::string verdict = row.correct() ? "correct" : fmt::format("WRONG: {} elements", row.check.wrong);
  return fmt::format(kLine, op_text(row), fmt::format("{}x{}", row.nodes, row.ranks), shape_text(row),
                     time_text(row.time_us), fmt::format("{:.3g}", row.tflops_per_rank), bytes_text(row.nvlink_bytes),
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
  nlohmann::ordered_json json = {
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
  if (row.moe) {
    json["tokens"] = row.moe->tokens;
    json["hidden"] = row.k;
    json["inter"] = row.n;
    json["experts"] = row.moe->experts;
    json["topk"] = row.moe->topk;
    json["routing"] = name_of(row.moe->routing);
    json["direction"] = name_of(row.moe->direction);
    json["clamp"] = row.moe->clamp;
    json["crossing_tokens"] = row.moe->crossing_tokens;
    if (row.moe->max_rows) {
      json["max_rows"] = *row.moe->max_rows;
      json["dropped_pairs"] = row.moe->dropped_pairs;
    }
  }
  if (row.attention) {
    json["batch"] = row.attention->batch;
    json["seq"] = row.attention->seq;
    json["heads"] = row.attention->heads;
    json["kv_heads"] = row.attention->kv_heads;
    json["head_dim"] = row.k;
    json["direction"] = name_of(row.attention->direction);
    json["mask"] = mask_text(row.attention->mask);
    json["layout"] = name_of(row.attention->layout);
    json["scale"] = row.attention->scale;
    json["sink"] = row.attention->sink;
    json["flops"] = row.attention->flops;
  }
  return json.dump();
}

}  // namespace mk::tools

// SPDX-License-Identifier: MIT
// tools/bench_report.cc — see bench_report.h.
#include "bench_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "build_info.h"
#include "report.h"

namespace mk::tools {
namespace {

using bench::BenchCase;
using bench::Timing;
using Json = nlohmann::ordered_json;

constexpr auto kLine = "{:<17} {:<5} {:<28} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9} {:>8}  {}";
constexpr auto kFixedLine = "{:<8} {:<5} {:>10} {:>10} {:>10} {:>10}  {}";

// What was not measured is 0.
std::string us_text(double us) {
  if (us == 0) return "-";
  return us < 100 ? fmt::format("{:.2f}", us) : fmt::format("{:.1f}", us);
}

std::string us_text(const std::optional<Timing>& timing) { return timing ? us_text(timing->median_us) : "-"; }

std::string world_text(const BenchCase& shape) { return fmt::format("{}x{}", shape.world.nodes, shape.world.ranks); }

std::string shape_text(const BenchCase& shape) {
  if (bench::is_gemm(shape.op)) {
    return fmt::format("{}x{}x{} {}", shape.m, shape.n, shape.k, name_of(shape.dtype));
  }
  if (shape.op == bench::OpKind::kRingAttention) {
    return fmt::format("{}x{}:{}x{} {} {}", shape.n, shape.attention.heads, shape.attention.kv_heads, shape.k,
                       mask_text(shape.attention.mask), name_of(shape.dtype));
  }
  return fmt::format("{} of {}x{} E{}k{} {}", shape.moe.tokens, shape.k, shape.n, shape.moe.experts, shape.moe.topk,
                     name_of(shape.dtype));
}

std::string verdict(const CheckResult& check) {
  return check.wrong == 0 ? "correct" : fmt::format("WRONG: {} elements", check.wrong);
}

std::string ratio_text(double above, const std::optional<Timing>& below) {
  return below && above > 0 ? fmt::format("{:.3f}", above / below->median_us) : "-";
}

Json shape_json(const BenchCase& shape, const std::string& device_name) {
  Json json = {{"op", bench::name_of(shape.op)},
               {"device_name", device_name},
               {"nodes", shape.world.nodes},
               {"ranks", shape.world.ranks},
               {"m", shape.m},
               {"n", shape.n},
               {"k", shape.k},
               {"dtype", name_of(shape.dtype)}};
  if (bench::is_moe(shape.op)) {
    json["tokens"] = shape.moe.tokens;
    json["hidden"] = shape.k;
    json["inter"] = shape.n;
    json["experts"] = shape.moe.experts;
    json["topk"] = shape.moe.topk;
  }
  if (shape.op == bench::OpKind::kRingAttention) {
    json["seq"] = shape.n;
    json["rows"] = shape.m;
    json["heads"] = shape.attention.heads;
    json["kv_heads"] = shape.attention.kv_heads;
    json["head_dim"] = shape.k;
    json["mask"] = mask_text(shape.attention.mask);
    json["layout"] = name_of(shape.attention.order);
  }
  return json;
}

void add_timing(Json& json, const std::string& name, const std::optional<Timing>& timing) {
  const bool is_there = timing && timing->median_us > 0;
  json[name + "_us"] = is_there ? Json(timing->median_us) : Json();
  json[name + "_p99_us"] = is_there ? Json(timing->p99_us) : Json();
}

void add_end(Json& json, const CheckResult& check, const BenchRequest& request) {
  const Split& split = request.split;
  json["repetitions"] = request.repetitions;
  json["split"] = split.empty() ? Json("auto") : Json(split);
  json["error"] = check.error;
  json["bound"] = check.bound;
  json["wrong"] = check.wrong;
  json["correct"] = check.wrong == 0;
  json["commit"] = MKERNEL_COMMIT;
}

}  // namespace

std::string bench_header() {
  return fmt::format(kLine, "operator", "world", "MxNxK, tokens or length", "compute", "comm", "bound", "serial",
                     "baseline", "fused", "overlap", "vs serial", "vs best", "verdict");
}

std::string bench_row(const bench::Measurement& result) {
  const BenchCase& shape = result.shape;
  return fmt::format(kLine, bench::name_of(shape.op), world_text(shape), shape_text(shape),
                     us_text(result.compute.median_us), us_text(result.communication_us), us_text(result.bound_us()),
                     us_text(result.serial.median_us), us_text(result.overlapped.median_us), us_text(result.fused),
                     ratio_text(result.bound_us(), result.fused), ratio_text(result.serial.median_us, result.fused),
                     ratio_text(result.best_baseline_us(), result.fused), verdict(result.check));
}

std::string to_json(const bench::Measurement& result, const BenchRequest& request) {
  Json json = shape_json(result.shape, result.device_name);
  json["pace"] = bench::name_of(request.pace);
  json["nvlink_bytes"] = result.traffic.nvlink_bytes;
  json["network_bytes"] = result.traffic.network_bytes;
  add_timing(json, "compute", result.compute);
  json["communication_us"] = result.communication_us;
  json["bound_us"] = result.bound_us();
  add_timing(json, "serial", result.serial);
  json["serial_chunks"] = result.serial_chunks;
  add_timing(json, "baseline", result.overlapped);
  json["baseline_chunks"] = result.overlapped_chunks;
  add_timing(json, "fused", result.fused);
  const auto ratio = [&](double above) {
    return result.fused && above > 0 ? Json(above / result.fused->median_us) : Json();
  };
  json["overlap"] = ratio(result.bound_us());
  json["speedup_over_serial"] = ratio(result.serial.median_us);
  json["speedup_over_best"] = ratio(result.best_baseline_us());
  if (!result.why_no_fused.empty()) json["why_no_fused"] = result.why_no_fused;
  json["copies"] = result.copy_path;
  json["copies_gb_s"] = result.copy_gb_s;
  add_end(json, result.check, request);
  return json.dump();
}

std::string fixed_cost_header() {
  return fmt::format(kFixedLine, "operator", "world", "empty", "serial", "baseline", "fused", "verdict");
}

std::string fixed_cost_row(const bench::FixedCost& cost) {
  return fmt::format(kFixedLine, bench::name_of(cost.shape.op), world_text(cost.shape), us_text(cost.empty.median_us),
                     us_text(cost.serial.median_us), us_text(cost.overlapped.median_us), us_text(cost.fused),
                     verdict(cost.check));
}

std::string to_json(const bench::FixedCost& cost, const BenchRequest& request) {
  Json json = shape_json(cost.shape, cost.device_name);
  json["bench"] = "fixed_cost";
  add_timing(json, "empty", cost.empty);
  add_timing(json, "serial", cost.serial);
  add_timing(json, "baseline", cost.overlapped);
  add_timing(json, "fused", cost.fused);
  add_end(json, cost.check, request);
  return json.dump();
}

}  // namespace mk::tools

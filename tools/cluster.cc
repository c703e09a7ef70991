// SPDX-License-Identifier: MIT
// tools/cluster.cc — presets, and cluster files as JSON.
//
// A file holds any of the keys below; what it leaves out is as in the preset h200-1x8.  Rates are per
// rank and direction.  The ranges are those of docs/simulation.md.
#include "cluster.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "input_file.h"
#include "target/h200.h"
#include "usage.h"

namespace mk::tools {
namespace {

using nlohmann::json;

constexpr double kLeastRate = 0.001;  // GB/s or TFLOP/s
constexpr double kMostRate = 1'000'000;
constexpr int kMostMicroseconds = 1'000'000;

// H200s with NVLink 4 and a NIC each, at the rates that the field reaches.
Cluster h200(std::string name, int nodes, int ranks) {
  Cluster cluster;
  cluster.name = std::move(name);
  cluster.world = {nodes, ranks};
  cluster.costs.nvlink_gb_s = h200::kReachedNvlinkPerSecond * 1e-9;
  cluster.costs.nic_gb_s = h200::kReachedNetworkPerSecond * 1e-9;
  return cluster;
}

Cluster h200_efa() {
  Cluster cluster = h200("h200-2x8-efa", 2, 8);
  cluster.costs.nic_latency = 15 * sim::kMicrosecond;
  return cluster;
}

// What `mkernel bench --pace real` measures: ranks that share one GPU, and links that are paced to a rank's share.
Cluster scale_model(std::string name, int nodes, int ranks) {
  Cluster cluster;
  cluster.name = std::move(name);
  cluster.world = {nodes, ranks};
  cluster.is_scale_model = true;
  const int size = cluster.world.size();
  cluster.sms = h200::kSms / size;
  cluster.costs.nvlink_gb_s = h200::kNvlinkPerSecond * 1e-9 / size;
  cluster.costs.nic_gb_s = h200::kNetworkPerSecond * 1e-9 / size;
  cluster.costs.nic_latency = 10 * sim::kMicrosecond;  // fitted: a put passes host memory twice before its 2 us begin
  cluster.costs.launch = 10 * sim::kMicrosecond;       // of all ranks, as measured with empty kernels: 7 to 10
  return cluster;
}

const Cluster kPresets[] = {h200("h200-1x8", 1, 8),
                            h200("h200-2x8-cx7", 2, 8),
                            h200_efa(),
                            scale_model("h200-scale-2x2", 2, 2),
                            scale_model("h200-scale-1x4", 1, 4),
                            scale_model("h200-scale-1x2", 1, 2)};

constexpr int64_t kMostBytes = 64 << 10;  // of a file, which has sixteen keys

// An object of plain values.  The parser builds nested values without a limit, and ends with the stack when it frees
// them, so that nesting is refused where it begins.  Of a key that is there twice it would keep the last.
json parse_flat(const std::string& file, const std::string& text) {
  std::set<std::string> keys;
  const auto look = [&](int depth, json::parse_event_t event, json& value) {
    const bool begins = event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    check_usage(!begins || depth == 0, "--cluster is '{}': it holds a list or an object; values must be numbers", file);
    if (event != json::parse_event_t::key) return true;
    check_usage(keys.insert(value.get<std::string>()).second, "--cluster is '{}': the key {} is there twice", file,
                value.dump());
    return true;
  };
  json object = json::parse(text, look, /*allow_exceptions=*/false);
  check_usage(object.is_object(), "--cluster is '{}', which holds no JSON object", file);
  return object;
}

class Reader {
 public:
  Reader(const std::string& file, const json& object) : file_(file), object_(object) {}

  void integer(const char* key, int& field, int most) {
    const json* value = take(key);
    if (value == nullptr) return;
    check_usage(value->is_number_integer() && *value >= 1 && *value <= most,
                "--cluster is '{}': {} is {}; it must be a whole number from 1 to {}", file_, key, value->dump(), most);
    field = value->get<int>();
  }
  void rate(const char* key, double& field) {
    const json* value = take(key);
    if (value == nullptr) return;
    check_usage(value->is_number() && *value >= kLeastRate && *value <= kMostRate,
                "--cluster is '{}': {} is {}; it must be a number from {} to {}", file_, key, value->dump(), kLeastRate,
                kMostRate);
    field = value->get<double>();
  }
  void time_us(const char* key, sim::Time& field) {
    const json* value = take(key);
    if (value == nullptr) return;
    check_usage(value->is_number() && *value >= 0 && *value <= kMostMicroseconds,
                "--cluster is '{}': {} is {}; it must be microseconds from 0 to {}", file_, key, value->dump(),
                kMostMicroseconds);
    field = static_cast<sim::Time>(value->get<double>() * sim::kMicrosecond);
  }
  void nothing_else() const {
    for (const auto& [key, value] : object_.items()) {
      check_usage(known_.contains(key), "--cluster is '{}': there is no key {}; there are {}", file_, json(key).dump(),
                  fmt::join(known_, ", "));
    }
  }

 private:
  const json* take(const char* key) {
    known_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  const std::string& file_;
  const json& object_;
  std::set<std::string> known_;
};

}  // namespace

std::string cluster_presets() {
  std::string names;
  for (const Cluster& preset : kPresets) names += fmt::format("{}{}", names.empty() ? "" : ", ", preset.name);
  return names;
}

Cluster load_cluster(const std::string& name) {
  for (const Cluster& preset : kPresets) {
    if (preset.name == name) return preset;
  }
  const json object = parse_flat(
      name, read_input_file("--cluster", name, kMostBytes, fmt::format("a file or one of {}", cluster_presets())));
  Cluster cluster = kPresets[0];
  cluster.name = name;
  Reader reader(name, object);
  reader.integer("nodes", cluster.world.nodes, 1024);
  reader.integer("ranks", cluster.world.ranks, 64);
  reader.integer("sms", cluster.sms, 1024);
  reader.rate("sm_tflops", cluster.costs.sm_tflops);
  reader.time_us("tile_overhead_us", cluster.costs.tile_overhead);
  reader.rate("copy_gb_s", cluster.costs.copy_gb_s);
  reader.rate("sm_gb_s", cluster.costs.sm_gb_s);
  reader.rate("worker_gb_s", cluster.costs.worker_gb_s);
  reader.rate("nvlink_gb_s", cluster.costs.nvlink_gb_s);
  reader.time_us("nvlink_latency_us", cluster.costs.nvlink_latency);
  reader.rate("nic_gb_s", cluster.costs.nic_gb_s);
  reader.time_us("nic_latency_us", cluster.costs.nic_latency);
  reader.time_us("proxy_us", cluster.costs.proxy_per_command);
  reader.time_us("proxy_wake_us", cluster.costs.proxy_wake);
  reader.time_us("signal_latency_us", cluster.costs.signal_latency);
  reader.time_us("launch_us", cluster.costs.launch);
  reader.nothing_else();
  constexpr int64_t kMostSms = 1 << 18;
  const int64_t sms = int64_t{cluster.world.nodes} * cluster.world.ranks * cluster.sms;
  check_usage(sms <= kMostSms, "--cluster is '{}': nodes x ranks x sms is {}; at most {} are simulated", name, sms,
              kMostSms);
  return cluster;
}

}  // namespace mk::tools

// SPDX-License-Identifier: MIT
// tools/launches.cc — see launches.h.
#include "launches.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "base/math.h"
#include "mkernel/error.h"
#include "runtime/world_state.h"
#include "usage.h"

namespace mk::tools {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// What every process says, in their order.
std::vector<std::vector<double>> told_by_all(World& world, const std::vector<double>& mine, const char* what) {
  std::vector<std::vector<double>> all;
  for (const std::string& text : world.state().exchange(fmt::format("{:a}", fmt::join(mine, " ")), what)) {
    std::vector<double>& values = all.emplace_back();
    std::istringstream words(text);
    for (std::string word; words >> word;) values.push_back(std::strtod(word.c_str(), nullptr));
  }
  return all;
}

// A launch was refused.  A fault of an earlier one says more than that; that workers were stopped, because the refused
// launch cannot be completed, says less.
void throw_fault_of_earlier_launches(World& world) {
  try {
    world.synchronize();
  } catch (const Error& fault) {
    const std::vector<FaultRecord> faults = world.state().faults();
    const auto was_stopped = [](const FaultRecord& record) { return record.kind == FaultKind::kStopped; };
    if (fault.code() == ErrorCode::kFabric || !std::all_of(faults.begin(), faults.end(), was_stopped)) throw;
  }
}

}  // namespace

Row start_row(const char* op, const World& world, const RunRequest& request) {
  const Defaults& defaults = defaults_of(world.device());
  Row row;
  row.op = op;
  row.device = world.device();
  row.device_name = world.state().device().name();
  row.nodes = world.nodes();
  row.ranks = world.ranks_per_node();
  row.launcher = name_of(request.launcher);
  row.fabric = world.fabric();
  row.reach = world.fabric_reach();
  row.m = request.m.value_or(round_up<int64_t>(defaults.m, world.size()));
  row.n = request.n.value_or(defaults.n);
  row.k = request.k.value_or(defaults.k);
  row.dtype = request.dtype;
  row.launches = request.launches.value_or(defaults.launches);
  row.seed = request.seed;
  return row;
}

namespace {

// "compute=2,send=1", or "auto".
std::string in_words(const Split& split) {
  std::string words;
  for (const auto& [role, count] : split) words += fmt::format("{}{}={}", words.empty() ? "" : ",", role, count);
  return words.empty() ? "auto" : words;
}

}  // namespace

void check_same_flags(const Row& row, const Split& split, World& world) {
  const std::vector<std::string> all =
      world.state().exchange(fmt::format("{} {} --dtype {} --launches {} --seed {} --split {}", row.op,
                                         shape_flags(row), name_of(row.dtype), row.launches, row.seed, in_words(split)),
                             "the agreement on flags");
  for (size_t rank = 0; rank < all.size(); ++rank) {
    check_usage(all[rank] == all[0], "rank {} asks for {}; rank 0 asks for {} and all must agree", rank, all[rank],
                all[0]);
  }
}

double allocated_bytes(double rows, double cols, DType dtype) {
  constexpr double kGrain = 512;
  return std::ceil(rows * cols * static_cast<double>(size_of(dtype)) / kGrain) * kGrain;
}

int batch_of(const Row& row, const LaunchMemory& memory) {
  const int64_t most = defaults_of(row.device).memory_bytes;
  const int batch = launches_per_batch(row.launches, memory, static_cast<double>(most));
  const auto [flag, value] = row.attention ? std::pair("--seq", row.attention->seq)
                             : row.moe     ? std::pair("--tokens", row.moe->tokens)
                                           : std::pair("--m", row.m);
  check_usage(batch >= 1, "{} is {}; with {} a launch of {} takes {:.1f} GiB, and at most {} GiB are taken on {}", flag,
              value, shape_flags(row), row.op, (memory.per_launch + memory.once) / kGiB, most / kGiB,
              name_of(row.device));
  return batch;
}

std::vector<double> time_launches(World& world, int num_launches, const std::function<void(int)>& launch) {
  runtime::Device& device = world.state().device();
  world.synchronize();
  world.state().exchange("", "ranks that begin a batch of launches");
  try {
    for (int i = 0; i < num_launches; ++i) {
      for_each_rank_here(world, [&](int rank) { device.span_begin(rank); });
      launch(i);
      for_each_rank_here(world, [&](int rank) { device.span_end(rank); });
    }
  } catch (...) {
    throw_fault_of_earlier_launches(world);
    throw;
  }
  world.synchronize();
  std::vector<double> slowest(num_launches, 0.0);
  const auto add = [&](const std::vector<double>& spans) {
    for (int i = 0; i < num_launches; ++i) slowest[i] = std::max(slowest[i], spans.at(i));
  };
  for_each_rank_here(world, [&](int rank) { add(device.take_spans_us(rank)); });
  for (const std::vector<double>& spans : told_by_all(world, slowest, "times")) add(spans);
  return slowest;
}

void set_time(Row& row, std::vector<double> times_us) {
  row.time_us = median(std::move(times_us));
  const double product = 2.0 * static_cast<double>(row.m) * static_cast<double>(row.n) * static_cast<double>(row.k);
  const double flops = row.attention ? row.attention->flops : row.products * product;
  row.tflops_per_rank = flops / row.time_us * 1e-6;
}

void count_traffic(Row& row, const World& world, const runtime::Plan& plan) {
  for_each_rank_here(world, [&](int rank) {
    row.nvlink_bytes = std::max(row.nvlink_bytes, plan.nvlink_bytes(rank) / row.launches);
    row.network_bytes = std::max(row.network_bytes, world.network_stats(rank).bytes / row.launches);
    row.network.add(world.network_stats(rank));
  });
}

void merge(Row& row, World& world) {
  const CheckResult& own = row.check;
  std::vector<double> mine{static_cast<double>(row.nvlink_bytes), static_cast<double>(row.network_bytes),
                           static_cast<double>(own.wrong), own.error, own.bound};
  for (const uint64_t number : row.network.numbers()) mine.push_back(static_cast<double>(number));
  Row merged = row;
  merged.check = {};
  merged.network = {};
  for (const std::vector<double>& one : told_by_all(world, mine, "what all ranks found")) {
    merged.nvlink_bytes = std::max(merged.nvlink_bytes, static_cast<uint64_t>(one.at(0)));
    merged.network_bytes = std::max(merged.network_bytes, static_cast<uint64_t>(one.at(1)));
    merged.check.add({static_cast<decltype(own.wrong)>(one.at(2)), one.at(3), one.at(4)});
    const auto number = [&](size_t i) { return static_cast<uint64_t>(one.at(5 + i)); };
    merged.network.add({number(0), number(1), number(2), number(3), number(4), number(5)});
  }
  row = merged;
}

}  // namespace mk::tools

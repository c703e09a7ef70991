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

void check_same_flags(const Row& row, const Split& split, World& world) {
  const std::vector<std::string> all = world.state().exchange(
      fmt::format(
          "{} --m {} --n {} --k {} --dtype {} --launches {} --seed {} --split compute={},intra={},send={},reduce={}",
          row.op, row.m, row.n, row.k, name_of(row.dtype), row.launches, row.seed, split.compute, split.intra,
          split.send, split.reduce),
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

void check_memory(const Row& row, double bytes_per_launch, double bytes_once) {
  const double bytes = bytes_per_launch * row.launches + bytes_once;
  const int64_t most = defaults_of(row.device).memory_bytes;
  check_usage(bytes <= static_cast<double>(most),
              "--launches is {}; with --m {} --n {} --k {} that takes {:.1f} GiB, and at most {} GiB are taken on {}",
              row.launches, row.m, row.n, row.k, bytes / kGiB, most / kGiB, name_of(row.device));
}

double time_launches(World& world, int num_launches, const std::function<void(int)>& launch) {
  runtime::Device& device = world.state().device();
  world.synchronize();
  try {
    for (int i = 0; i < num_launches; ++i) {
      for_each_rank_here(world, [&](int rank) { device.span_begin(rank); });
      launch(i);
      for_each_rank_here(world, [&](int rank) { device.span_end(rank); });
    }
  } catch (...) {
    world.synchronize();  // throws the first fault, which says more than the refusal of a later launch
    throw;
  }
  world.synchronize();
  std::vector<double> slowest(num_launches, 0.0);
  const auto add = [&](const std::vector<double>& spans) {
    for (int i = 0; i < num_launches; ++i) slowest[i] = std::max(slowest[i], spans.at(i));
  };
  for_each_rank_here(world, [&](int rank) { add(device.take_spans_us(rank)); });
  for (const std::vector<double>& spans : told_by_all(world, slowest, "times")) add(spans);
  return median(slowest);
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

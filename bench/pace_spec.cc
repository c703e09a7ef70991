// SPDX-License-Identifier: MIT
// bench/pace_spec.cc — see pace_spec.h.
#include "bench/pace_spec.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "tools/usage.h"

namespace mk::bench {
namespace {

using tools::check_usage;

constexpr double kSlowest = 1e-3;  // GB/s
constexpr double kFastest = 1e6;

double read_rate(const std::string& whole, std::string_view text) {
  double rate = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  check_usage(error == std::errc{} && stopped == text.data() + text.size() && rate >= kSlowest && rate <= kFastest,
              "--pace is '{}'; its rates must be GB/s from {} to {}", whole, kSlowest, kFastest);
  return rate;
}

}  // namespace

PaceSpec parse_pace(const std::string& text) {
  if (text == "none") return {};
  if (text == "real") return kRealPace;
  PaceSpec pace;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view part = std::string_view(text).substr(at, comma - at);
    at = comma + 1;
    const size_t equals = std::min(part.find('='), part.size());
    const std::string_view link = part.substr(0, equals);
    check_usage(equals < part.size() && (link == "nvlink" || link == "network"),
                "--pace is '{}'; it must be real, none, or nvlink=GBs,network=GBs", text);
    double& rate = link == "nvlink" ? pace.nvlink_gb_s : pace.network_gb_s;
    check_usage(rate == 0, "--pace is '{}'; it names {} twice", text, link);
    rate = read_rate(text, part.substr(equals + 1));
  }
  return pace;
}

std::string name_of(const PaceSpec& pace) {
  if (pace == PaceSpec{}) return "none";
  std::string name;
  if (pace.nvlink_gb_s > 0) name = fmt::format("nvlink={}", pace.nvlink_gb_s);
  if (pace.network_gb_s > 0) name += fmt::format("{}network={}", name.empty() ? "" : ",", pace.network_gb_s);
  return name;
}

double communication_us(const Traffic& traffic, const PaceSpec& pace, int num_ranks) {
  const double nvlink = static_cast<double>(traffic.nvlink_bytes) * ns_per_byte(pace.nvlink_gb_s, num_ranks);
  const double network = static_cast<double>(traffic.network_bytes) * ns_per_byte(pace.network_gb_s, num_ranks);
  return std::max(nvlink, network) * 1e-3;
}

}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// tools/netbench_flags.cc — see netbench_flags.h.
#include "netbench_flags.h"

#include <charconv>
#include <sstream>

#include "flags.h"
#include "transport/fabric_kinds.h"

namespace mk::tools {
namespace {

constexpr const char* kAll = "all";
constexpr uint64_t kMostBytes = 256 << 20;  // a rank has four times as much
constexpr double kLongestSeconds = 60;

struct Unit {
  std::string_view name;
  uint64_t bytes;
};
constexpr Unit kUnits[] = {{"MiB", 1 << 20}, {"KiB", 1 << 10}};  // the largest first

std::string fabric_names() {
  std::string names;
  for (const FabricKind& kind : fabric_kinds()) names += fmt::format("{}, ", kind.name);
  return names + kAll;
}

uint64_t read_size(const std::string& text) {
  const auto refuse = [&] {
    throw UsageError(
        fmt::format("--sizes has '{}'; a size must be a whole number, alone or with KiB or MiB, from 1 to {}", text,
                    size_text(kMostBytes)));
  };
  uint64_t unit = 1;
  std::string_view digits = text;
  for (const Unit& one : kUnits) {
    if (!digits.ends_with(one.name)) continue;
    unit = one.bytes;
    digits.remove_suffix(one.name.size());
    break;
  }
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size()) refuse();
  if (number < 1 || number > kMostBytes / unit) refuse();
  return number * unit;
}

std::vector<uint64_t> read_sizes(const std::string& text) {
  std::vector<uint64_t> sizes;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) sizes.push_back(read_size(part));
  check_usage(!sizes.empty() && !text.ends_with(','), "--sizes is '{}'; it must be sizes with commas between them",
              text);
  return sizes;
}

double read_seconds(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  check_usage(error == std::errc{} && stopped == end && value > 0 && value <= kLongestSeconds,
              "--seconds is '{}'; it must be a number above 0, at most {}", text, kLongestSeconds);
  return value;
}

std::string default_sizes() {
  std::string text;
  for (const uint64_t size : NetbenchRequest{}.sizes)
    text += fmt::format("{}{}", text.empty() ? "" : ",", size_text(size));
  return text;
}

}  // namespace

std::string size_text(uint64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes >= unit.bytes && bytes % unit.bytes == 0) return fmt::format("{}{}", bytes / unit.bytes, unit.name);
  }
  return fmt::format("{}", bytes);
}

CLI::App* add_netbench_command(CLI::App& app, NetbenchRequest& request) {
  CLI::App* netbench = app.add_subcommand(
      "netbench", "Time puts of each fabric between two ranks of this machine, and commands through ring and proxy");
  add_flag(*netbench, "--net", "FABRIC",
           fmt::format("one of {}: those that can be used here, with the reason for the others [all]", fabric_names()),
           [&request](const std::string& text) { request.net = text; });
  add_flag(*netbench, "--sizes", "LIST", fmt::format("bytes of a put [{}]", default_sizes()),
           [&request](const std::string& text) { request.sizes = read_sizes(text); });
  add_flag(*netbench, "--seconds", "N", fmt::format("about how long a row is timed [{}]", request.seconds),
           [&request](const std::string& text) { request.seconds = read_seconds(text); });
  add_flag(*netbench, "--json", "FILE", "append one JSON object a row to FILE [none]",
           [&request](const std::string& text) { request.json = text; });
  netbench->footer("Exit codes: 0 every byte was right; 1 one was wrong or a fabric failed; 2 wrong usage.");
  return netbench;
}

void check_netbench(const NetbenchRequest& request) {
  bool known = request.net == kAll;
  for (const FabricKind& kind : fabric_kinds()) known = known || request.net == kind.name;
  check_usage(known, "--net is '{}'; it must be one of {}", request.net, fabric_names());
}

}  // namespace mk::tools

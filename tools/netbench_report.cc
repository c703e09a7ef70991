// SPDX-License-Identifier: MIT
// tools/netbench_report.cc — see netbench_report.h.
#include "netbench_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "build_info.h"
#include "netbench_flags.h"
#include "runtime/device.h"

namespace mk::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPutsLine = "{:<9} {:>7} {:>7} {:>12} {:>12} {:>12} {:>12} {:>6}  {}\n";
constexpr const char* kRoundTripsLine = "{:<9} {:>11} {:>12} {:>12} {:>14} {:>12} {:>6}\n";
constexpr const char* kCommandsLine = "{:>9} {:>9} {:>15} {:>21}\n";

std::string us_text(double us) { return fmt::format("{:.2f} us", us); }
std::string rate_text(double bytes_per_second) {
  constexpr double kGiga = 1e9, kMega = 1e6;
  if (bytes_per_second < kGiga / 10) return fmt::format("{:.2f} MB/s", bytes_per_second / kMega);
  return fmt::format("{:.2f} GB/s", bytes_per_second / kGiga);
}
std::string millions_text(double rate) { return fmt::format("{:.2f} M/s", rate * 1e-6); }

std::string finished(Json json) {
  json["cores"] = std::thread::hardware_concurrency();
  json["commit"] = MKERNEL_COMMIT;
  return json.dump();
}

}  // namespace

std::string puts_header() {
  return fmt::format(kPutsLine, "fabric", "size", "window", "latency", "p99", "bandwidth", "plain", "ratio", "verdict");
}

std::string puts_row(std::string_view fabric, const bench::PutFigures& figures) {
  const double plain = figures.baseline_bytes_per_second;
  return fmt::format(kPutsLine, fabric, size_text(figures.bytes), figures.window_puts,
                     us_text(figures.latency.median_us), us_text(figures.latency.p99_us),
                     rate_text(figures.bytes_per_second), plain > 0 ? rate_text(plain) : "-",
                     plain > 0 ? fmt::format("{:.2f}", figures.bytes_per_second / plain) : "-",
                     figures.wrong_bytes == 0 ? "correct" : fmt::format("{} bytes WRONG", figures.wrong_bytes));
}

std::string to_json(std::string_view fabric, std::string_view ranks_are, const bench::PutFigures& figures) {
  const double plain = figures.baseline_bytes_per_second;
  return finished({{"bench", "puts"},
                   {"fabric", fabric},
                   {"ranks_are", ranks_are},
                   {"bytes", figures.bytes},
                   {"window_puts", figures.window_puts},
                   {"round_trips", figures.round_trips},
                   {"latency_us", figures.latency.median_us},
                   {"latency_p99_us", figures.latency.p99_us},
                   {"bytes_per_second", figures.bytes_per_second},
                   {"plain_bytes_per_second", plain > 0 ? Json(plain) : Json()},
                   {"ratio", plain > 0 ? Json(figures.bytes_per_second / plain) : Json()},
                   {"checked_bytes", figures.checked_bytes},
                   {"wrong_bytes", figures.wrong_bytes}});
}

std::string unusable_row(std::string_view fabric, const std::string& why) {
  return fmt::format("{:<9} cannot be used here: {}\n", fabric, why);
}

std::string unusable_json(std::string_view fabric, const std::string& why) {
  return finished({{"bench", "puts"}, {"fabric", fabric}, {"why_not", why}});
}

std::string commands_header() {
  return fmt::format(kCommandsLine, "producers", "commands", "through proxy", "per s of proxy's CPU");
}

std::string commands_row(const bench::CommandFigures& figures) {
  return fmt::format(kCommandsLine, figures.producers, figures.commands, millions_text(figures.per_second),
                     millions_text(figures.per_proxy_second));
}

std::string to_json(const bench::CommandFigures& figures) {
  return finished({{"bench", "commands"},
                   {"producers", figures.producers},
                   {"runs", figures.runs},
                   {"commands", figures.commands},
                   {"commands_per_second", figures.per_second},
                   {"commands_per_proxy_second", figures.per_proxy_second}});
}

std::string round_trips_header() {
  return fmt::format(kRoundTripsLine, "asks", "round trips", "two words", "p99", "through proxy", "p99", "ratio");
}

std::string round_trips_row(const bench::RoundTripFigures& figures) {
  return fmt::format(kRoundTripsLine, "gpu", figures.round_trips, us_text(figures.words.median_us),
                     us_text(figures.words.p99_us), us_text(figures.through_proxy.median_us),
                     us_text(figures.through_proxy.p99_us), fmt::format("{:.2f}", figures.ratio()));
}

std::string to_json(const bench::RoundTripFigures& figures) {
  return finished({{"bench", "round_trips"},
                   {"round_trips", figures.round_trips},
                   {"words_us", figures.words.median_us},
                   {"words_p99_us", figures.words.p99_us},
                   {"through_proxy_us", figures.through_proxy.median_us},
                   {"through_proxy_p99_us", figures.through_proxy.p99_us},
                   {"ratio", figures.ratio()},
                   {"device_name", runtime::describe_cuda()}});
}

std::string no_round_trips_row(const std::string& why) { return unusable_row("gpu", why); }

std::string no_round_trips_json(const std::string& why) {
  return finished({{"bench", "round_trips"}, {"why_not", why}});
}

}  // namespace mk::tools

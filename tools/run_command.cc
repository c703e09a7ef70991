// SPDX-License-Identifier: MIT
// tools/run_command.cc — `mkernel run`: each operator in a World of its own, a row each.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "commands.h"
#include "launcher.h"
#include "operators.h"
#include "usage.h"

namespace mk::tools {
namespace {

using File = std::unique_ptr<std::FILE, decltype([](std::FILE* file) { std::fclose(file); })>;

// Opened before anything runs: a name that cannot be written to is wrong usage.
File open_json(const std::optional<std::string>& name) {
  if (!name) return nullptr;
  File file(std::fopen(name->c_str(), "a"));
  check_usage(file != nullptr, "--json is '{}', which cannot be written: {}", *name, std::strerror(errno));
  return file;
}

void append(std::FILE* file, const std::string& line) {
  if (std::fprintf(file, "%s\n", line.c_str()) < 0 || std::fflush(file) != 0) {
    throw std::runtime_error(fmt::format("cannot write the --json file: {}", std::strerror(errno)));
  }
}

Options options_of(const RunRequest& request) {
  Options options = Options::from_env();
  options.timeout_ms = request.timeout_ms.value_or(options.timeout_ms);
  options.net = request.net.value_or(options.net);
  return options;
}

// Of all operators, one that this device does not have yet is passed over, in a line.
std::optional<Row> run_one(const Operator& one, World& world, const RunRequest& request) {
  try {
    return one.run(world, request);
  } catch (const Error& error) {
    if (request.op != "all" || error.code() != ErrorCode::kUnavailable) throw;
    fmt::print("{}\n", error.what());
    return std::nullopt;
  }
}

void print_line(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

int run_seat(const RunRequest& request, const Seat& seat) {
  const File json = open_json(seat.reports() ? request.json : std::nullopt);
  const Options options = options_of(request);
  bool any = false;
  bool all_correct = true;
  for (size_t i = 0; i < operators().size(); ++i) {
    const Operator& one = operators()[i];
    if (request.op != "all" && request.op != one.name) continue;
    World world = make_world(request, options, seat, i);
    const std::optional<Row> ran = run_one(one, world, request);
    if (!ran) continue;
    const Row& row = *ran;
    all_correct = all_correct && row.correct();
    if (!seat.reports()) continue;
    if (!any) {
      print_line(fmt::format("device {}: {}; {} launches a row, seed {}", name_of(row.device), row.device_name,
                             row.launches, row.seed));
      print_line(table_header());
    }
    print_line(table_row(row));
    if (const std::string stats = stats_row(row); request.stats && !stats.empty()) print_line(stats);
    if (json) append(json.get(), to_json(row));
    any = true;
  }
  return all_correct ? kExitCorrect : kExitFailed;
}

}  // namespace

int run_command(const RunRequest& asked) {
  const RunRequest request = with_launcher_chosen(asked);
  return with_launcher(request, operators().size(), [&](const Seat& seat) { return run_seat(request, seat); });
}

}  // namespace mk::tools

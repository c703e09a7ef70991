// SPDX-License-Identifier: MIT
// tools/run_command.cc — `mkernel run`: each operator in a World of its own, a row each.
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "commands.h"
#include "launcher.h"
#include "operators.h"
#include "output_file.h"
#include "runtime/world_state.h"
#include "split_flag.h"
#include "standard_streams.h"
#include "usage.h"

namespace mk::tools {
namespace {

Options options_of(const RunRequest& request) {
  Options options = Options::from_env();
  options.timeout_ms = request.timeout_ms.value_or(options.timeout_ms);
  options.net = request.net.value_or(options.net);
  return options;
}

// Of all operators, one that this device does not have yet is passed over, in a line.
std::optional<Row> run_one(const Operator& one, World& world, const RunRequest& request, const Seat& seat) {
  RunRequest own = request;
  own.split = split_of(one, request.direction, request.split);
  try {
    return one.run(world, own);
  } catch (const Error& error) {
    const bool is_absent = request.op == "all" && error.code() == ErrorCode::kUnavailable;
    if (!is_absent) world.state().explain(error);  // what this rank alone finds, the others hear at once
    if (!is_absent) throw;
    if (seat.reports()) print_line("{}", error.what());
    return std::nullopt;
  } catch (const std::exception& error) {
    world.state().explain(Error(ErrorCode::kDevice, error.what()));
    throw;
  }
}

// The row of an operator, and before the first one what all have in common.
void print_row(const Row& row, const RunRequest& request, OutputFile& json, bool has_head) {
  if (!has_head) {
    print_line("device {}: {}; {} launches a row, seed {}", name_of(row.device), row.device_name, row.launches,
               row.seed);
    print_line("{}", table_header());
  }
  print_line("{}", table_row(row));
  if (const std::string stats = stats_row(row); request.stats && !stats.empty()) print_line("{}", stats);
  json.append(to_json(row));
}

int run_seat(const RunRequest& request, const Seat& seat) {
  OutputFile json("--json", seat.reports() ? request.json : std::nullopt);
  const Options options = options_of(request);
  bool any = false;
  bool all_correct = true;
  for (size_t i = 0; i < operators().size(); ++i) {
    const Operator& one = operators()[i];
    if (request.op != "all" && request.op != one.name) continue;
    World world = make_world(request, options, seat, i);
    const std::optional<Row> ran = run_one(one, world, request, seat);
    if (!ran) continue;
    const Row& row = *ran;
    all_correct = all_correct && row.correct();
    try {
      if (seat.reports()) print_row(row, request, json, std::exchange(any, true));
    } catch (const std::exception& error) {
      world.state().explain(Error(ErrorCode::kDevice, error.what()));  // nobody waits for this rank
      throw;
    }
    // The World ends next, and cannot say whom it waits for then.  So no rank ends well unless there is a row.
    world.state().exchange("", "the end of the row");
  }
  json.close();
  return all_correct ? kExitCorrect : kExitFailed;
}

}  // namespace

int run_command(const RunRequest& asked) {
  const RunRequest request = with_launcher_chosen(asked);
  return with_launcher(request, operators().size(), [&](const Seat& seat) { return run_seat(request, seat); });
}

}  // namespace mk::tools

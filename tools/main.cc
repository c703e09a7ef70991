// SPDX-License-Identifier: MIT
// tools/main.cc — the program `mkernel`: one command, one exit code, one line for each way to fail.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <string_view>

#include "bench_commands.h"
#include "command_line.h"
#include "commands.h"
#include "complaint.h"
#include "launcher.h"
#include "mkernel/error.h"
#include "sim_commands.h"
#include "standard_streams.h"
#include "usage.h"

namespace {

using namespace mk::tools;

enum class Told { kNobody, kOthers };

// Ranks that a launcher started wait for each other in `run`, unless a flag says that they are something else.
Told whom_to_tell(int argc, char** argv) {
  const bool is_run = argc > 1 && std::string_view(argv[1]) == "run";
  const auto names_launcher = [](std::string_view word) { return word.starts_with("--launcher"); };
  return is_run && std::none_of(argv, argv + argc, names_launcher) ? Told::kOthers : Told::kNobody;
}

// Of several processes that somebody started alike, each says what it found and which rank it is, and tells the others.
int complain(const Complaint& complaint, Told told) {
  const std::optional<int> rank = rank_of_many();
  warn_line("mkernel: {}{}", rank ? fmt::format("rank {}: ", *rank) : "", complaint.text);
  if (rank && told == Told::kOthers) tell_others(complaint.text);
  return complaint.exit_code;
}

int execute(const CommandLine& line) {
  switch (line.action) {
    case Action::kRun: return run_command(line.run);
    case Action::kInfo: info_command(); break;
    case Action::kFuzz: return fuzz_command(line.fuzz);
    case Action::kSim: return sim_command(line.sim);
    case Action::kBench: return bench_command(line.bench);
    case Action::kTopo: return topo_command(line.topo);
    case Action::kNetbench: return netbench_command(line.netbench);
    case Action::kPrint: print_text(line.text); break;
  }
  return kExitCorrect;
}

int run_program(int argc, char** argv) {
  CommandLine line;
  try {
    line = parse_command_line(argc, argv);
    const int code = execute(line);
    check_stdout_at_end();
    return code;
  } catch (...) {
    return complain(complaint_of(std::current_exception(), line.run), whom_to_tell(argc, argv));
  }
}

}  // namespace

int main(int argc, char** argv) {
  secure_standard_streams();
  try {
    return run_program(argc, argv);
  } catch (...) {  // there was no memory to say what was wrong
    warn_text("mkernel: out of memory");
    return kExitFailed;
  }
}

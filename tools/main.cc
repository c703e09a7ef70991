// SPDX-License-Identifier: MIT
// tools/main.cc — the program `mkernel`: one command, one exit code, one line for each way to fail.
#include <cstdio>
#include <exception>
#include <optional>

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

// Of several processes that somebody started alike, each says what it found and which rank it is.
int complain(const Complaint& complaint) {
  const std::optional<int> rank = rank_of_many();
  warn_line("mkernel: {}{}", rank ? fmt::format("rank {}: ", *rank) : "", complaint.text);
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
    return complain(complaint_of(std::current_exception(), line.run));
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

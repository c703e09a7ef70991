// SPDX-License-Identifier: MIT
// tools/command_line.h — from argv to a command.
#pragma once

#include <string>

#include "bench_request.h"
#include "netbench_request.h"
#include "request.h"
#include "sim_requests.h"
#include "topo_request.h"

namespace mk::tools {

enum class Action { kRun, kInfo, kFuzz, kSim, kBench, kTopo, kNetbench, kPrint };

struct CommandLine {
  Action action = Action::kPrint;
  RunRequest run;            // kRun
  FuzzRequest fuzz;          // kFuzz
  SimRequest sim;            // kSim
  BenchRequest bench;        // kBench
  TopoRequest topo;          // kTopo
  NetbenchRequest netbench;  // kNetbench
  std::string text;          // kPrint: what --help and --version say
};

// Throws UsageError.
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace mk::tools

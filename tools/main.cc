// SPDX-License-Identifier: MIT
// tools/main.cc — the program `mkernel`: one command, one exit code, one line for each way to fail.
#include <new>

#include "bench_commands.h"
#include "command_line.h"
#include "commands.h"
#include "launcher.h"
#include "mkernel/error.h"
#include "sim_commands.h"
#include "standard_streams.h"
#include "usage.h"

namespace {

using namespace mk::tools;

int complain(int exit_code, const std::string& message) {
  if (exit_code == kExitUsage && !speaks_for_all()) return exit_code;
  warn_line("mkernel: {}", message);
  return exit_code;
}

int complain(const mk::Error& error, const RunRequest& request) {
  switch (error.code()) {
    case mk::ErrorCode::kInvalidArgument: return complain(kExitUsage, in_flags(error.what(), request));
    case mk::ErrorCode::kUnavailable:
      if (const std::string said = in_flags(error.what(), request); said != error.what()) {
        return complain(kExitUsage, said);
      }
      return complain(kExitUsage, fmt::format("--device is {}: {}", name_of(request.device), error.what()));
    case mk::ErrorCode::kTimeout:
    case mk::ErrorCode::kFabric:
    case mk::ErrorCode::kDevice: break;
  }
  return complain(kExitFailed, error.what());
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
  } catch (const UsageError& error) {
    return complain(kExitUsage, error.what());
  } catch (const mk::Error& error) {
    return complain(error, line.run);
  } catch (const std::bad_alloc&) {
    return complain(kExitFailed, "out of memory; try a smaller --m, --n, --k or --launches");
  } catch (const std::exception& error) {
    return complain(kExitFailed, error.what());
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

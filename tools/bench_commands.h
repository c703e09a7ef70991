// SPDX-License-Identifier: MIT
// tools/bench_commands.h — the subcommand that needs CUDA and cuBLAS.
#pragma once

#include <string>

#include "bench_request.h"

namespace mk::tools {

// Prints a table and returns the exit code.  Throws UsageError and Error.
int bench_command(const BenchRequest& request);

// Empty if this build has it, else what to do about it.
std::string why_no_bench();

}  // namespace mk::tools

// SPDX-License-Identifier: MIT
// tools/commands.h — what the program does, one function a subcommand.
#pragma once

#include "netbench_request.h"
#include "request.h"
#include "topo_request.h"

namespace mk::tools {

// Prints a table and returns the exit code.  Throws UsageError and Error.
int run_command(const RunRequest& request);

void info_command();

// Prints what was found and returns the exit code.  Throws UsageError.
int topo_command(const TopoRequest& request);

// Prints tables and returns the exit code.  Throws UsageError and Error.
int netbench_command(const NetbenchRequest& request);

}  // namespace mk::tools

// SPDX-License-Identifier: MIT
// tools/commands.h — what the program does, one function a subcommand.
#pragma once

#include "request.h"

namespace mk::tools {

// Prints a table and returns the exit code.  Throws UsageError and Error.
int run_command(const RunRequest& request);

void info_command();

}  // namespace mk::tools

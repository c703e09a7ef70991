// SPDX-License-Identifier: MIT
// tools/sim_commands.h — the subcommands that need the simulator, which needs Boost.Context.
#pragma once

#include <string>

#include "sim_requests.h"

namespace mk::tools {

// Each prints and returns the exit code.  Throws UsageError and Error.
int fuzz_command(const FuzzRequest& request);
int sim_command(const SimRequest& request);

// Empty if the two can run, else what to do about it.
std::string why_no_sim();

}  // namespace mk::tools

// SPDX-License-Identifier: MIT
// tools/sim_flags.h — the flags of `mkernel fuzz` and `mkernel sim`.
#pragma once

#include <CLI/CLI.hpp>

#include "sim_requests.h"

namespace mk::tools {

CLI::App* add_fuzz_command(CLI::App& app, FuzzRequest& request);
CLI::App* add_sim_command(CLI::App& app, SimRequest& request);

// After parsing.  Throw UsageError.
void check_fuzz(const FuzzRequest& request);
void check_sim(const SimRequest& request);

}  // namespace mk::tools

// SPDX-License-Identifier: MIT
// tools/netbench_flags.h — the command line of `mkernel netbench`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "netbench_request.h"

namespace mk::tools {

CLI::App* add_netbench_command(CLI::App& app, NetbenchRequest& request);

// After parsing.  Throws UsageError.
void check_netbench(const NetbenchRequest& request);

// "64KiB"; as the flag takes it.
std::string size_text(uint64_t bytes);

}  // namespace mk::tools

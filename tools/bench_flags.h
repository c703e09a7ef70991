// SPDX-License-Identifier: MIT
// tools/bench_flags.h — the flags of `mkernel bench`.
#pragma once

#include <CLI/CLI.hpp>

#include "bench_request.h"

namespace mk::tools {

CLI::App* add_bench_command(CLI::App& app, BenchRequest& request);

// After parsing.  Throws UsageError.
void check_bench(const BenchRequest& request);

}  // namespace mk::tools

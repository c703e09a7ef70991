// SPDX-License-Identifier: MIT
// tools/topo_flags.h — the command line of `mkernel topo`.
#pragma once

#include <CLI/CLI.hpp>

#include "topo_request.h"

namespace mk::tools {

CLI::App* add_topo_command(CLI::App& app, TopoRequest& request);

}  // namespace mk::tools

// SPDX-License-Identifier: MIT
// tools/topo_report.h — a node and who serves whom in it, as a tree for people and as a JSON object.
#pragma once

#include <string>

#include "transport/placement.h"

namespace mk::tools {

// At most 100 columns wide, as long as names are no longer than they use to be.
std::string topo_text(const Placement& placement);

// One line without its end.
std::string topo_json(const Placement& placement);

}  // namespace mk::tools

// SPDX-License-Identifier: MIT
// tools/topo_request.h — what the flags of `mkernel topo` say.
#pragma once

#include <optional>
#include <string>

namespace mk::tools {

struct TopoRequest {
  std::optional<std::string> nics;   // where empty: MKERNEL_NICS
  std::optional<std::string> xml;    // where empty: this machine
  std::optional<std::string> sysfs;  // where empty: /sys, and none with --xml
  std::optional<std::string> json;   // "-" is stdout, in place of the tree
};

}  // namespace mk::tools

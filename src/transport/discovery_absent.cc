// SPDX-License-Identifier: MIT
// transport/discovery_absent.cc — compiled in place of discovery_hwloc.cc when hwloc is missing.
#include "mkernel/error.h"
#include "transport/discovery.h"

namespace mk {

std::string why_no_discovery() {
  return "this build cannot see the machine: install hwloc (libhwloc-dev) and build again";
}

Topology discover_topology(const DiscoverySource&) { throw Error(ErrorCode::kUnavailable, why_no_discovery()); }

}  // namespace mk

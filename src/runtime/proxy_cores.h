// SPDX-License-Identifier: MIT
// runtime/proxy_cores.h — on which cores a rank's proxy runs: those near the NIC that serves its GPU.
#pragma once

#include <string>
#include <vector>

#include "mkernel/options.h"
#include "transport/placement.h"

namespace mk::runtime {

// Empty: anywhere.  `local_rank` counts in the node, and drives the GPU of that number.
std::vector<int> cores_in(const Placement& placement, int local_rank);

// Of this machine.  Empty as well for a fabric without NICs, where Options::pin_proxies is off, and where nothing is
// known: a proxy that is not pinned is slower at most, so nothing here is an Error.
std::vector<int> proxy_cores(const std::string& fabric, int local_rank, const Options& options);

}  // namespace mk::runtime

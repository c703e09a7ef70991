// SPDX-License-Identifier: MIT
// transport/efa_port.h — the efa fabric: scalable reliable datagrams of AWS's Elastic Fabric Adapter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/fabric_port.h"
#include "transport/window_registry.h"

namespace mk {

// Throws Error.
std::unique_ptr<FabricPort> open_efa_port(const PortSettings& settings, const WindowRegistry& windows);

// See FabricKind::reach.
std::string efa_reach(const PortSettings& settings, std::byte* memory, uint64_t bytes);

// Empty if this machine has a device for it.
std::string why_no_efa();

// The names of those.
std::vector<std::string> efa_devices();

}  // namespace mk

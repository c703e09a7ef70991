// SPDX-License-Identifier: MIT
// transport/verbs_port.h — the verbs fabric: reliable connections over InfiniBand or RoCE.
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
std::unique_ptr<FabricPort> open_verbs_port(const PortSettings& settings, const WindowRegistry& windows);

// See FabricKind::reach.
std::string verbs_reach(const PortSettings& settings, std::byte* memory, uint64_t bytes);

// Empty if this machine has a device for it.
std::string why_no_verbs();

// The names of those.
std::vector<std::string> verbs_devices();

}  // namespace mk

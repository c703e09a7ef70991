// SPDX-License-Identifier: MIT
// transport/fabric_kinds.h — the fabrics there are, by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/fabric_port.h"
#include "transport/window_registry.h"

namespace mk {

struct FabricKind {
  std::string_view name;

  // Whether ranks may be in different processes.
  bool between_processes;

  // Empty if this machine has what it takes, else what is missing.
  std::string (*why_not)();

  // `windows` outlives the port.
  std::unique_ptr<FabricPort> (*open)(const PortSettings&, const WindowRegistry& windows);

  // Whether it maps windows of others, so that all must be in shared memory.
  bool maps_windows = false;

  // The RDMA devices it can use; null if it needs none.
  std::vector<std::string> (*devices)() = nullptr;

  // How these devices, as the settings name them, reach memory of the settings' Mover by themselves, for people. Throws
  // an Error that says what was tried.  Null: it goes to such memory by way of the host's only.
  std::string (*reach)(const PortSettings&, std::byte* memory, uint64_t bytes) = nullptr;
};

std::span<const FabricKind> fabric_kinds();

// Throws Error, naming those there are, if there is none of that name.
const FabricKind& fabric_kind(std::string_view name);

// Throws Error also if the kind is not usable here, with the reason.
std::unique_ptr<FabricPort> open_port(std::string_view kind, const PortSettings&, const WindowRegistry& windows);

}  // namespace mk

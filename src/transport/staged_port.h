// SPDX-License-Identifier: MIT
// transport/staged_port.h — one rank's end of a fabric that carries windows by way of host memory.
//
// It opens a port of another kind inside, which knows one window: slots in pinned host memory.  The rank's own windows
// are known to the Mover only, so they need no keys.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/fabric_port.h"
#include "transport/mover.h"
#include "transport/staged_layout.h"
#include "transport/staged_memory.h"
#include "transport/window_registry.h"

namespace mk {

class StagedPort : public KeylessPort {
 public:
  // `kind`: the inner fabric, one between processes.  `windows` are those that puts name.  Throws Error.
  StagedPort(std::string_view kind, const PortSettings& settings, const WindowRegistry& windows,
             std::unique_ptr<Mover> mover);

  std::string address() const override { return address_; }
  std::string describe() const override;
  std::unique_ptr<Fabric> connect(const std::vector<std::string>& addresses) override;

 private:
  void learn(int peer, const std::string& key);

  PortSettings settings_;
  const WindowRegistry& windows_;
  StagedLayout layout_;
  std::unique_ptr<Mover> mover_;
  StagedMemory memory_;  // pinned until the inner port, which has it registered, is gone
  WindowRegistry slots_;
  uint32_t window_ = 0;
  std::unique_ptr<FabricPort> inner_;
  std::string address_;
};

}  // namespace mk

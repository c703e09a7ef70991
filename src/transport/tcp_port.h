// SPDX-License-Identifier: MIT
// transport/tcp_port.h — one rank's end of the tcp fabric before it is connected.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/fabric_port.h"
#include "transport/socket.h"
#include "transport/window_registry.h"

namespace mk {

class TcpPort : public KeylessPort {
 public:
  // Listens from here on.  Throws Error.
  TcpPort(const PortSettings& settings, const WindowRegistry& windows);

  std::string address() const override { return address_; }
  std::unique_ptr<Fabric> connect(const std::vector<std::string>& addresses) override;

 private:
  PortSettings settings_;
  const WindowRegistry& windows_;
  Fd listener_;
  std::string address_;
};

// Empty if this machine has sockets for it.
std::string why_no_tcp();

}  // namespace mk

// SPDX-License-Identifier: MIT
// transport/tcp_address.h — where a rank's tcp port can be reached: what FabricPort::address carries.
#pragma once

#include <string>
#include <vector>

#include "transport/socket_address.h"

namespace mk {

struct TcpAddress {
  int connections = 0;                // what the rank wants with each peer
  std::vector<SocketAddress> places;  // the same port on each of its interfaces
};

std::string encode(const TcpAddress& address);

// Throws Error with what is wrong with the bytes, and whose they are.
TcpAddress decode_address(const std::string& bytes, int rank);

}  // namespace mk

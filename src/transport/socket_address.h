// SPDX-License-Identifier: MIT
// transport/socket_address.h — where a socket is or shall be, and where this machine can be reached.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mk {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  static SocketAddress v4(const in_addr& address, int port);
  static SocketAddress v6(const in6_addr& address, int port);
  static SocketAddress any(int family, int port);  // to listen on all interfaces

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  bool is_v6() const { return storage.ss_family == AF_INET6; }
  std::string host() const;  // "192.0.2.1"
  int port() const;
};

// "192.0.2.1 port 4000"
std::string to_text(const SocketAddress& address);

// "192.168.7.1:4711", "[fe80::1%eth0]:4711" or "node7:4711".
struct Endpoint {
  std::string host;
  uint16_t port = 0;

  std::string to_string() const;
  bool is_number() const;                          // the host is an address, not a name
  static Endpoint parse(const std::string& text);  // throws Error(kInvalidArgument)
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// All addresses of a host, the likeliest first.  Throws Error(kInvalidArgument) if it has none.
std::vector<SocketAddress> look_up(const Endpoint& endpoint);

// The addresses of `interface`, or of all interfaces that are up; of the machine's own loop only where there is no
// other.  Throws Error, naming the interfaces there are, if that leaves none.
std::vector<SocketAddress> local_places(const std::string& interface, int port);

}  // namespace mk

// SPDX-License-Identifier: MIT
// transport/tcp_socket.cc — see tcp_socket.h.
#include "transport/tcp_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "mkernel/error.h"

namespace mk {
namespace {

// Strangers in the queue must not keep peers out of it.
constexpr int kBacklog = 1024;

// Settings that cannot be had are done without.
void set(const Fd& socket, int level, int name, int value) {
  setsockopt(socket.number(), level, name, &value, sizeof(value));
}

bool bind_to_any(const Fd& socket, int family) {
  SocketAddress any;
  any.storage.ss_family = static_cast<sa_family_t>(family);  // the rest, zero, means any address and any port
  any.bytes = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (family == AF_INET6) set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  return bind(socket.number(), any.get(), any.bytes) == 0 && listen(socket.number(), kBacklog) == 0;
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

void throw_errno(const std::string& what, int error) {
  throw Error(ErrorCode::kFabric, fmt::format("{}: {}", what, std::strerror(error)));
}

std::string to_text(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.storage.ss_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(address.storage);
    inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof(text));
    return fmt::format("{} port {}", text, ntohs(in.sin6_port));
  }
  const auto& in = reinterpret_cast<const sockaddr_in&>(address.storage);
  inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
  return fmt::format("{} port {}", text, ntohs(in.sin_port));
}

Fd open_socket(int family, const TcpSettings& settings) {
  Fd opened(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (opened && settings.buffer_bytes > 0) {  // before connect and listen: the window's scale follows from it
    set(opened, SOL_SOCKET, SO_SNDBUF, settings.buffer_bytes);
    set(opened, SOL_SOCKET, SO_RCVBUF, settings.buffer_bytes);
  }
  return opened;
}

Fd open_listener(const TcpSettings& settings) {
  for (const int family : {AF_INET6, AF_INET}) {
    Fd listener = open_socket(family, settings);
    if (listener && bind_to_any(listener, family)) return listener;
  }
  throw_errno("no tcp port can be opened", errno);
}

int port_of(const Fd& listener) {
  SocketAddress bound;
  bound.bytes = sizeof(bound.storage);
  if (getsockname(listener.number(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.bytes) != 0) {
    throw_errno("a tcp port does not tell its number", errno);
  }
  const bool is_v6 = bound.storage.ss_family == AF_INET6;
  return ntohs(is_v6 ? reinterpret_cast<const sockaddr_in6&>(bound.storage).sin6_port
                     : reinterpret_cast<const sockaddr_in&>(bound.storage).sin_port);
}

void prepare_connected(const Fd& socket, std::chrono::milliseconds deadline) {
  const int seconds = static_cast<int>(std::clamp<int64_t>(deadline.count() / 4000, 1, 1000));
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::min<int64_t>(deadline.count(), 1 << 30)));
}

void abort_on_close(const Fd& socket) {
  const linger now{1, 0};
  setsockopt(socket.number(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

}  // namespace mk

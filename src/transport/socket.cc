// SPDX-License-Identifier: MIT
// transport/socket.cc — see socket.h.
#include "transport/socket.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
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

bool listens(const Fd& socket, int family, int port) {
  const SocketAddress any = SocketAddress::any(family, port);
  if (family == AF_INET6) set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  set(socket, SOL_SOCKET, SO_REUSEADDR, 1);  // an earlier meeting's last packets do not hold a port
  return bind(socket.number(), any.get(), any.bytes) == 0 && listen(socket.number(), kBacklog) == 0;
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

void throw_errno(const std::string& what, int error) {
  throw Error(ErrorCode::kFabric, fmt::format("{}: {}", what, std::strerror(error)));
}

Fd open_socket(int family, int buffer_bytes) {
  Fd opened(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (opened && buffer_bytes > 0) {  // before connect and listen: the window's scale follows from it
    set(opened, SOL_SOCKET, SO_SNDBUF, buffer_bytes);
    set(opened, SOL_SOCKET, SO_RCVBUF, buffer_bytes);
  }
  return opened;
}

Fd begin_connect(const SocketAddress& to, int buffer_bytes) {
  Fd begun = open_socket(to.storage.ss_family, buffer_bytes);
  if (begun && connect(begun.number(), to.get(), to.bytes) != 0 && errno != EINPROGRESS) {
    const int error = errno;
    begun = Fd();
    errno = error;
  }
  return begun;
}

std::optional<int> connect_result(const Fd& socket) {
  pollfd watched{socket.number(), POLLOUT, 0};
  if (poll(&watched, 1, 0) <= 0) return std::nullopt;
  int error = 0;
  socklen_t bytes = sizeof(error);
  getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  return error;
}

Fd open_listener(int port, int buffer_bytes) {
  for (const int family : {AF_INET6, AF_INET}) {
    Fd listener = open_socket(family, buffer_bytes);
    if (listener && listens(listener, family, port)) return listener;
  }
  throw_errno(port == 0 ? "no tcp port can be opened" : fmt::format("tcp port {} cannot be opened", port), errno);
}

int port_of(const Fd& listener) {
  SocketAddress bound;
  bound.bytes = sizeof(bound.storage);
  if (getsockname(listener.number(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.bytes) != 0) {
    throw_errno("a tcp port does not tell its number", errno);
  }
  return bound.port();
}

Fd accept_from(const Fd& listener) {
  return Fd(accept4(listener.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

void send_at_once(const Fd& socket) { set(socket, IPPROTO_TCP, TCP_NODELAY, 1); }

void prepare_connected(const Fd& socket, std::chrono::milliseconds deadline) {
  const int seconds = static_cast<int>(std::clamp<int64_t>(deadline.count() / 4000, 1, 1000));
  send_at_once(socket);
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

// SPDX-License-Identifier: MIT
// transport/tcp_socket.h — a file descriptor that closes itself, and sockets as the tcp fabric wants them.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <string>
#include <utility>

#include "transport/tcp_settings.h"

namespace mk {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();

  int number() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// "192.0.2.1 port 4000"
std::string to_text(const SocketAddress& address);

// Non-blocking.  No Fd, and errno, if there is none to be had.
Fd open_socket(int family, const TcpSettings& settings);

// Hears all interfaces, over IPv6 and IPv4 or over IPv4 alone.  Throws Error.
Fd open_listener(const TcpSettings& settings);
int port_of(const Fd& listener);

// For a socket that two ranks have met on: no waiting for more to send, and a peer that is silent because it is
// gone is found out within the deadline.
void prepare_connected(const Fd& socket, std::chrono::milliseconds deadline);

// Throws Error(kFabric): what failed, and the text of `error`.
[[noreturn]] void throw_errno(const std::string& what, int error);

// At close, what the kernel still has to send is thrown away.
void abort_on_close(const Fd& socket);

}  // namespace mk

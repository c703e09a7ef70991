// SPDX-License-Identifier: MIT
// transport/socket.h — a file descriptor that closes itself, and tcp sockets as everything here wants them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "transport/socket_address.h"

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

// Non-blocking.  `buffer_bytes`: the kernel's buffers each way, 0 for its own choice.  No Fd, and errno, if there is
// none to be had.
Fd open_socket(int family, int buffer_bytes = 0);

// Begins to connect; no Fd, and errno, if that fails at once.
Fd begin_connect(const SocketAddress& to, int buffer_bytes = 0);
// How that went: 0 if it is connected, else the error; nothing as long as it is not known.
std::optional<int> connect_result(const Fd& socket);

// Hears all interfaces, over IPv6 and IPv4 or over IPv4 alone, at a port or, for 0, at any that is free.  Throws Error.
Fd open_listener(int port = 0, int buffer_bytes = 0);
int port_of(const Fd& listener);

// No Fd, and errno, if nobody has come or no descriptor is to be had.
Fd accept_from(const Fd& listener);

// Nothing waits for more to send.
void send_at_once(const Fd& socket);

// For a socket that two ranks have met on: sends at once, and a peer that is silent because it is gone is found out
// within the deadline.
void prepare_connected(const Fd& socket, std::chrono::milliseconds deadline);

// Throws Error(kFabric): what failed, and the text of `error`.
[[noreturn]] void throw_errno(const std::string& what, int error);

// At close, what the kernel still has to send is thrown away.
void abort_on_close(const Fd& socket);

}  // namespace mk

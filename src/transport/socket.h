// SPDX-License-Identifier: MIT
// transport/socket.h — stream sockets on which every call has a deadline.
//
// Nothing here waits for ever: a call that cannot finish in time throws Error(kTimeout) that says what it was
// for; one whose peer is gone or refuses throws Error(kFabric).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mk {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// "192.168.7.1:4711" or "[fe80::1%eth0]:4711".
struct Endpoint {
  std::string host;
  uint16_t port = 0;

  std::string to_string() const;
  static Endpoint parse(const std::string& text);  // throws Error(kInvalidArgument)
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

  // All of the bytes.  `what` completes the sentence "… waited for …" of an error.
  void send(std::span<const std::byte> bytes, Deadline deadline, const std::string& what) const;
  void receive(std::span<std::byte> bytes, Deadline deadline, const std::string& what) const;

  // What is there now: its length, 0 for nothing yet, -1 if the peer has closed or the connection broke.
  int64_t receive_some(std::span<std::byte> bytes) const;

 private:
  int fd_ = -1;
};

// Accepts on every interface, or on one host's address.
class Listener {
 public:
  explicit Listener(const Endpoint& at = {"", 0});  // port 0: any that is free

  uint16_t port() const { return port_; }
  int fd() const { return socket_.fd(); }
  Socket accept() const;  // not open if nobody has come

 private:
  Socket socket_;
  uint16_t port_ = 0;
};

Socket connect(const Endpoint& to, Deadline deadline);

// Where other machines may reach this one: addresses of interfaces that are up, loopback last.
std::vector<std::string> own_addresses();

// Until one of the file descriptors is readable, or the deadline.
void wait_readable(std::span<const int> fds, Deadline deadline);

}  // namespace mk

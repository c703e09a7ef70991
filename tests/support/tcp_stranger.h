// SPDX-License-Identifier: MIT
// tests/support/tcp_stranger.h — somebody at a tcp port who says what a test wants, frame or not.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "transport/socket.h"
#include "transport/tcp_address.h"
#include "transport/tcp_frame.h"

namespace mk::test {

template <class T>
std::string text_of(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Blocks, but not for longer than a healthy machine needs.
class TcpStranger {
 public:
  explicit TcpStranger(const std::string& address) {
    const SocketAddress place = decode_address(address, 0).places.front();
    socket_ = Fd(::socket(place.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval patience{20, 0};
    setsockopt(socket_.number(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(socket_.number(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(::connect(socket_.number(), place.get(), place.bytes), 0);
  }

  // A port that has refused what came before may have closed already.
  bool say(const std::string& bytes) {
    return ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }

  // Reads until there are so many, or the other side has closed.
  std::string hear(size_t bytes) {
    std::string heard(bytes, '\0');
    const ssize_t result = ::recv(socket_.number(), heard.data(), bytes, MSG_WAITALL);
    heard.resize(result < 0 ? 0 : static_cast<size_t>(result));
    return heard;
  }

  void hang_up() { socket_ = Fd(); }

  const Fd& socket() const { return socket_; }

 private:
  Fd socket_;
};

}  // namespace mk::test

// SPDX-License-Identifier: MIT
// transport/tcp_receiver.h — puts that arrive over one tcp connection.
//
// Payload goes from the socket to its place in the window; behind it a call reads on into a small buffer, where the
// next headers, and payloads as small, are found.  A signal is added to after the last byte of its put.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/tcp_frame.h"
#include "transport/window_registry.h"

namespace mk {

class TcpReceiver {
 public:
  enum class State { kDrained, kMoreIsThere };

  TcpReceiver(int socket, int peer, int rank, const WindowRegistry& windows)
      : socket_(socket), peer_(peer), rank_(rank), windows_(windows) {}

  // Takes what has arrived, or a good part of it.  Throws Error if the peer is gone, or sent what is no frame or
  // points outside a window; of such a frame nothing is written.
  State receive();

 private:
  size_t read_some();
  void take_staged();
  void open(const TcpFrame& frame);
  void close_if_whole();

  int socket_;
  int peer_;
  int rank_;
  const WindowRegistry& windows_;

  // The put that is arriving, if any.
  uint64_t* signal_ = nullptr;
  uint64_t amount_ = 0;
  std::byte* to_ = nullptr;
  uint64_t missing_ = 0;  // bytes

  std::array<std::byte, 4096> staged_;
  size_t num_staged_ = 0;
};

}  // namespace mk

// SPDX-License-Identifier: MIT
// transport/tcp_receiver.h — puts, and parts of puts, that arrive over one tcp connection.
//
// Payload goes from the socket to its place in the window.  The same call reads on into a small buffer, in which the
// next headers and small payloads are found.  A signal is paid after the last byte of its put, over whichever
// connection that byte comes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/tcp_frame.h"
#include "transport/tcp_parts.h"
#include "transport/window_registry.h"

namespace mk {

class TcpReceiver {
 public:
  enum class State { kDrained, kMoreIsThere };

  // `parts` are the peer's, and those of its other connections.
  TcpReceiver(int socket, int peer, int rank, const WindowRegistry& windows, TcpParts& parts)
      : socket_(socket), peer_(peer), rank_(rank), windows_(windows), parts_(parts) {}

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
  TcpParts& parts_;

  // The put or part that is arriving, if any.
  TcpFrame frame_;
  uint64_t* signal_ = nullptr;
  std::byte* to_ = nullptr;
  uint64_t missing_ = 0;  // bytes

  std::array<std::byte, 4096> staged_;
  size_t num_staged_ = 0;
};

}  // namespace mk

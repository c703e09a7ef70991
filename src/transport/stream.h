// SPDX-License-Identifier: MIT
// transport/stream.h — whole messages over a socket, each with a deadline.
//
// Nothing here waits for ever: a call that cannot finish in time throws Error(kTimeout) that says what it was
// for; one whose peer is gone or refuses throws Error(kFabric).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "transport/socket.h"

namespace mk {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// All of the bytes.  `what` completes the sentence "… waited for …" of an error.
void send_all(const Fd& socket, std::span<const std::byte> bytes, Deadline deadline, const std::string& what);
void receive_all(const Fd& socket, std::span<std::byte> bytes, Deadline deadline, const std::string& what);

// What is there now: its length, 0 for nothing yet, -1 if the peer has closed or the connection broke.
int64_t receive_some(const Fd& socket, std::span<std::byte> bytes);

// At the first of the places that accepts: one that is silent does not keep the others from being tried.
Fd connect_to(std::span<const SocketAddress> places, Deadline deadline);
Fd connect_to(const Endpoint& to, Deadline deadline);

// Until one of the file descriptors is readable, or the deadline.
void wait_readable(std::span<const int> fds, Deadline deadline);

}  // namespace mk

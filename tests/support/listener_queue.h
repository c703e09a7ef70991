// SPDX-License-Identifier: MIT
// tests/support/listener_queue.h — who waits at a listener.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "transport/socket.h"

namespace mk::test {

// How many have connected and were not accepted yet.
inline unsigned num_in_queue(const Fd& listener) {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  getsockopt(listener.number(), IPPROTO_TCP, TCP_INFO, &info, &bytes);
  return info.tcpi_unacked;
}

}  // namespace mk::test

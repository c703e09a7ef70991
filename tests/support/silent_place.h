// SPDX-License-Identifier: MIT
// tests/support/silent_place.h — an address that answers nothing: a listener whose queue is full and stays so.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <vector>

#include "transport/socket.h"

namespace mk::test {

class SilentPlace {
 public:
  SilentPlace() : listener_(open_socket(AF_INET)) {
    const SocketAddress any = SocketAddress::v4({htonl(INADDR_LOOPBACK)}, 0);
    EXPECT_EQ(bind(listener_.number(), any.get(), any.bytes), 0);
    EXPECT_EQ(listen(listener_.number(), 0), 0);
    place_ = SocketAddress::v4({htonl(INADDR_LOOPBACK)}, port_of(listener_));
    for (int i = 0; i < 16; ++i) {
      queue_.push_back(begin_connect(place_));
      pollfd one{queue_.back().number(), POLLOUT, 0};
      if (poll(&one, 1, 100) == 0) return;  // a connection inside a machine does not take so long
    }
    ADD_FAILURE() << "the queue does not get full";
  }

  const SocketAddress& place() const { return place_; }
  Endpoint endpoint() const { return {place_.host(), static_cast<uint16_t>(place_.port())}; }

 private:
  Fd listener_;
  SocketAddress place_;
  std::vector<Fd> queue_;
};

}  // namespace mk::test

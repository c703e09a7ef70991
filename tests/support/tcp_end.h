// SPDX-License-Identifier: MIT
// tests/support/tcp_end.h — rank 1 of two is a tcp fabric; rank 0 is played by strangers who know the secret, one per
// connection.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fabric_world.h"
#include "tests/support/handshaker.h"
#include "tests/support/tcp_stranger.h"

namespace mk::test {

class TcpEnd : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 32 << 20;

  explicit TcpEnd(PortSettings settings) {
    data_window = windows.add({nullptr, data.data()}, kBytes);
    signal_window = windows.add({nullptr, reinterpret_cast<std::byte*>(signals.data())}, sizeof(signals));
    settings.world = {2, 1};
    settings.rank = 1;
    port = open_port("tcp", settings, windows);
    for (int i = 0; i < settings.tcp.connections; ++i) strangers.emplace_back(port->address());
    const HandshakeContext context{settings.secret, HandshakeContext::Purpose::kTcpFabric, 1};
    const auto greeting = std::async(std::launch::async, [&] {
      for (uint32_t i = 0; i < strangers.size(); ++i) {
        greet(strangers[i].socket(), context, {.rank = 0, .size = 2, .number = i});
      }
      for (TcpStranger& stranger : strangers) EXPECT_EQ(hear_answer(stranger.socket()).kind, AnswerKind::kHeard);
    });
    fabric = port->connect({port->address(), port->address()});
  }

  TcpFrame frame(uint64_t to, uint64_t bytes) const {
    TcpFrame frame;
    frame.to_rank = 1;
    frame.to_offset = to;
    frame.bytes = bytes;
    frame.to_window = data_window;
    frame.signal_window = signal_window;
    frame.amount = 1;
    return frame;
  }
  Command command(uint64_t bytes) const {
    return {0, 0, bytes, data_window, data_window, signal_window, 0, 1, 0, 0, 0};
  }

  PutResult poll() { return fabric->poll(completed); }
  bool fails() {
    return busily([&] { return poll() == PutResult::kFailed; });
  }
  uint64_t signal(size_t index = 0) const { return HostAtomics::load_acquire(&signals[index]); }
  bool is_untouched() const {
    return signal() == 0 && std::all_of(data.data(), data.data() + 4096, [](std::byte b) { return b == std::byte{}; });
  }

  SparseMemory data{kBytes};
  std::array<uint64_t, 4> signals{};
  WindowRegistry windows;
  uint32_t data_window = 0;
  uint32_t signal_window = 0;
  std::unique_ptr<FabricPort> port;
  std::deque<TcpStranger> strangers;
  std::unique_ptr<Fabric> fabric;
  std::vector<uint64_t> completed;
};

}  // namespace mk::test

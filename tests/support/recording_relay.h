// SPDX-License-Identifier: MIT
// tests/support/recording_relay.h — a relay between callers and a listener that records all bytes and may change those
// of the listener.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "mkernel/error.h"
#include "transport/socket.h"
#include "transport/stream.h"

namespace mk::test {

class RecordingRelay {
 public:
  struct Talk {
    std::string from_caller;
    std::string from_listener;
  };
  using Change = std::function<void(std::string& from_listener)>;

  explicit RecordingRelay(const SocketAddress& to, Change change = {})
      : to_(to), change_(std::move(change)), thread_([this] { run(); }) {}
  ~RecordingRelay() {
    done_ = true;
    thread_.join();
  }

  SocketAddress place() const { return SocketAddress::v4({htonl(INADDR_LOOPBACK)}, port_of(listener_)); }
  Endpoint endpoint() const { return {"127.0.0.1", static_cast<uint16_t>(port_of(listener_))}; }

  // So far, in the order in which callers came.
  std::vector<Talk> talks() const {
    const std::lock_guard lock(mutex_);
    std::vector<Talk> talks;
    for (const Line& line : lines_) talks.push_back(line.said);
    return talks;
  }
  std::string everything() const {
    std::string all;
    for (const Talk& talk : talks()) all += talk.from_caller + talk.from_listener;
    return all;
  }

 private:
  struct Line {
    Fd caller, listener;
    Talk said;
  };

  void run() {
    while (!done_) {
      std::vector<pollfd> watched{{listener_.number(), POLLIN, 0}};
      for (const Line& line : lines_) {
        if (line.caller) watched.push_back({line.caller.number(), POLLIN, 0});
        if (line.caller) watched.push_back({line.listener.number(), POLLIN, 0});
      }
      poll(watched.data(), watched.size(), 5);
      const std::lock_guard lock(mutex_);
      if (Fd caller = accept_from(listener_)) let_in(std::move(caller));
      for (Line& line : lines_) {
        if (!line.caller) continue;
        const bool caller_is_there = pump(line.caller, line.listener, line.said.from_caller, {});
        if (pump(line.listener, line.caller, line.said.from_listener, change_) && caller_is_there) continue;
        line.caller = Fd();
        line.listener = Fd();
      }
    }
  }

  void let_in(Fd caller) {
    try {
      lines_.push_back({std::move(caller), connect_to({&to_, 1}, Clock::now() + std::chrono::seconds(20)), {}});
    } catch (const Error&) {  // the listener is gone: so is the caller's connection
    }
  }

  // False if it is over.
  static bool pump(const Fd& from, const Fd& to, std::string& written, const Change& change) {
    std::string bytes(1 << 16, '\0');
    const int64_t got = receive_some(from, std::as_writable_bytes(std::span(bytes)));
    if (got <= 0) return got == 0;
    bytes.resize(static_cast<size_t>(got));
    written += bytes;
    if (change) change(bytes);
    try {
      send_all(to, std::as_bytes(std::span(bytes)), Clock::now() + std::chrono::seconds(20), "a relay");
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  SocketAddress to_;
  Change change_;
  Fd listener_ = open_listener();
  mutable std::mutex mutex_;
  std::list<Line> lines_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace mk::test

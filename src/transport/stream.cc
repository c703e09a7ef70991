// SPDX-License-Identifier: MIT
// transport/stream.cc — see stream.h.
#include "transport/stream.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "mkernel/error.h"

namespace mk {
namespace {

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

// False at the deadline.
bool wait_for(const Fd& socket, short events, Deadline deadline) {
  pollfd one{socket.number(), events, 0};
  for (;;) {
    const int ready = poll(&one, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw_errno("poll failed", errno);
    if (Clock::now() >= deadline) return false;
  }
}

bool is_again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

[[noreturn]] void throw_late(const std::string& what) {
  throw Error(ErrorCode::kTimeout, fmt::format("the deadline passed while this process waited for {}", what));
}

Fd connect_at(const SocketAddress& place, Deadline deadline) {
  Fd made = open_socket(place.storage.ss_family);
  if (!made) throw_errno("no socket could be made", errno);
  send_at_once(made);
  if (connect(made.number(), place.get(), place.bytes) == 0) return made;
  int error = errno;
  if (error == EINPROGRESS) {
    if (!wait_for(made, POLLOUT, deadline)) throw_late(fmt::format("a connection to {}", to_text(place)));
    socklen_t length = sizeof(error);
    getsockopt(made.number(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error != 0) throw_errno(fmt::format("no connection to {}", to_text(place)), error);
  return made;
}

}  // namespace

void send_all(const Fd& socket, std::span<const std::byte> bytes, Deadline deadline, const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (!is_again(errno)) {
      throw_errno(fmt::format("the connection broke at {}", what), errno);
    } else if (!wait_for(socket, POLLOUT, deadline)) {
      throw_late(what);
    }
  }
}

void receive_all(const Fd& socket, std::span<std::byte> bytes, Deadline deadline, const std::string& what) {
  while (!bytes.empty()) {
    const int64_t got = receive_some(socket, bytes);
    if (got < 0) throw Error(ErrorCode::kFabric, fmt::format("the peer closed the connection at {}", what));
    bytes = bytes.subspan(static_cast<size_t>(got));
    if (got == 0 && !wait_for(socket, POLLIN, deadline)) throw_late(what);
  }
}

int64_t receive_some(const Fd& socket, std::span<std::byte> bytes) {
  const ssize_t got = recv(socket.number(), bytes.data(), bytes.size(), 0);
  if (got > 0) return got;
  return got < 0 && is_again(errno) ? 0 : -1;
}

Fd connect_to(const Endpoint& to, Deadline deadline) {
  const std::vector<SocketAddress> places = look_up(to);
  for (size_t i = 0;; ++i) {
    try {
      return connect_at(places.at(i), deadline);
    } catch (const Error&) {
      if (i + 1 == places.size()) throw;
    }
  }
}

void wait_readable(std::span<const int> fds, Deadline deadline) {
  std::vector<pollfd> all;
  for (const int fd : fds) all.push_back({fd, POLLIN, 0});
  poll(all.data(), all.size(), milliseconds_until(deadline));  // early is fine: the caller looks again
}

}  // namespace mk

// SPDX-License-Identifier: MIT
// transport/stream.cc — see stream.h.
#include "transport/stream.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "mkernel/error.h"
#include "transport/name_look_up.h"

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

constexpr std::chrono::milliseconds kStagger{250};  // for one place, before the next is tried as well

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

Fd connect_to(std::span<const SocketAddress> places, Deadline deadline) {
  std::vector<Fd> tries;  // one a place, as far as they have begun; none where it failed
  std::string trouble = "there is no place to connect to";
  Deadline next_try;
  const auto fail = [&](size_t i, int error) {
    trouble = fmt::format("no connection to {}: {}", to_text(places[i]), std::strerror(error));
    tries[i] = Fd();
    next_try = {};
  };
  for (;;) {
    std::vector<pollfd> watched;
    for (size_t i = 0; i < tries.size(); ++i) {
      if (!tries[i]) continue;
      const std::optional<int> error = connect_result(tries[i]);
      if (error == 0) {
        send_at_once(tries[i]);
        return std::move(tries[i]);
      }
      if (error) {
        fail(i, *error);
      } else {
        watched.push_back({tries[i].number(), POLLOUT, 0});
      }
    }
    const bool more = tries.size() < places.size();
    if (!more && watched.empty()) throw Error(ErrorCode::kFabric, trouble);
    if (Clock::now() >= deadline) throw_late(fmt::format("a connection to {}", to_text(places.front())));
    if (more && Clock::now() >= next_try) {
      next_try = Clock::now() + kStagger;
      Fd begun = begin_connect(places[tries.size()]);
      const int error = errno;
      tries.push_back(std::move(begun));
      if (!tries.back()) fail(tries.size() - 1, error);
      continue;
    }
    poll(watched.data(), watched.size(), milliseconds_until(more ? std::min(deadline, next_try) : deadline));
  }
}

Fd connect_to(const Endpoint& to, Deadline deadline) {
  NameLookUp names(to);
  if (!names.is_done(deadline)) throw_late(fmt::format("the address of '{}'", to.host));
  return connect_to(names.take(), deadline);
}

void wait_readable(std::span<const int> fds, Deadline deadline) {
  std::vector<pollfd> all;
  for (const int fd : fds) all.push_back({fd, POLLIN, 0});
  poll(all.data(), all.size(), milliseconds_until(deadline));  // early is fine: the caller looks again
}

}  // namespace mk

// SPDX-License-Identifier: MIT
// bench/plain_streams.cc — see plain_streams.h.
#include "bench/plain_streams.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <functional>
#include <vector>

#include "bench/joined_threads.h"
#include "transport/stream.h"

namespace mk::bench {
namespace {

constexpr size_t kBufferBytes = 128 << 10;

// A call that takes this long fails.
void make_blocking(const Fd& socket) {
  fcntl(socket.number(), F_SETFL, fcntl(socket.number(), F_GETFL) & ~O_NONBLOCK);
  timeval longest{};
  longest.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(kNetDeadline).count();
  setsockopt(socket.number(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof(longest));
  setsockopt(socket.number(), SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof(longest));
}

// Rank 1 listens and says where; each stream is a connection of its own.
std::vector<Fd> connect_streams(NetRank& rank, int num_streams) {
  const Deadline deadline = Clock::now() + kNetDeadline;
  std::vector<Fd> sockets;
  if (rank.rank() == 0) {
    const Endpoint to = Endpoint::parse(rank.meet(""));
    for (int i = 0; i < num_streams; ++i) sockets.push_back(connect_to(to, deadline));
  } else {
    const Fd listener = open_listener();
    const int port = port_of(listener);
    const SocketAddress place = local_places("", port).front();  // where the fabric, too, is reached first
    rank.meet(Endpoint{place.host(), static_cast<uint16_t>(port)}.to_string());
    const int watched[] = {listener.number()};
    while (static_cast<int>(sockets.size()) < num_streams) {
      wait_readable(watched, deadline);
      if (Fd socket = accept_from(listener)) sockets.push_back(std::move(socket));
      if (Clock::now() >= deadline) throw Error(ErrorCode::kTimeout, "the plain streams did not all connect");
    }
  }
  for (const Fd& socket : sockets) make_blocking(socket);
  rank.meet("");
  return sockets;
}

// Until the time is over and the peer has taken all.  Returns the bytes, or -1.
int64_t send_until(const Fd& socket, Deadline end) {
  std::vector<std::byte> buffer(kBufferBytes);
  int64_t bytes = 0;
  do {
    const ssize_t sent = send(socket.number(), buffer.data(), buffer.size(), MSG_NOSIGNAL);
    if (sent < 0) return -1;
    bytes += sent;
  } while (Clock::now() < end);
  shutdown(socket.number(), SHUT_WR);
  return recv(socket.number(), buffer.data(), 1, 0) == 0 ? bytes : -1;  // the peer closes when it has seen our end
}

// Until the peer's end.  Returns the bytes, or -1.
int64_t receive_to_end(const Fd& socket) {
  std::vector<std::byte> buffer(kBufferBytes);
  for (int64_t bytes = 0;;) {
    const ssize_t received = recv(socket.number(), buffer.data(), buffer.size(), 0);
    if (received < 0) return -1;
    if (received > 0) {
      bytes += received;
      continue;
    }
    shutdown(socket.number(), SHUT_WR);
    return bytes;
  }
}

// The sum over all streams.
int64_t in_threads(const std::vector<Fd>& sockets, const std::function<int64_t(const Fd&)>& work) {
  std::atomic<int64_t> bytes = 0;
  std::atomic<bool> failed = false;
  JoinedThreads threads;
  for (const Fd& socket : sockets) {
    threads.start([&] {
      const int64_t mine = work(socket);
      if (mine < 0) failed = true;
      bytes += mine;
    });
  }
  threads.join();
  if (failed) throw Error(ErrorCode::kFabric, "a plain stream beside the fabric broke");
  return bytes;
}

}  // namespace

double plain_streams(NetRank& rank, int num_streams, double seconds) {
  const std::vector<Fd> sockets = connect_streams(rank, num_streams);
  if (rank.rank() == 1) {
    in_threads(sockets, receive_to_end);
    return 0;
  }
  const Clock::time_point start = Clock::now();
  const Deadline end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const int64_t bytes = in_threads(sockets, [end](const Fd& socket) { return send_until(socket, end); });
  return static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace mk::bench

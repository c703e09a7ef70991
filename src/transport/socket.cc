// SPDX-License-Identifier: MIT
// transport/socket.cc — see socket.h.
#include "transport/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace mk {
namespace {

std::string reason() { return std::strerror(errno); }

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

// False at the deadline.
bool wait_for(int fd, short events, Deadline deadline) {
  pollfd one{fd, events, 0};
  for (;;) {
    const int ready = poll(&one, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw Error(ErrorCode::kFabric, fmt::format("poll failed: {}", reason()));
    if (Clock::now() >= deadline) return false;
  }
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;

AddressList look_up(const Endpoint& endpoint, bool to_listen) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* list = nullptr;
  const char* host = endpoint.host.empty() ? nullptr : endpoint.host.c_str();
  const int failed = getaddrinfo(host, std::to_string(endpoint.port).c_str(), &hints, &list);
  check_arg(failed == 0, "host is '{}'; it cannot be looked up: {}", endpoint.host, gai_strerror(failed));
  return AddressList(list);
}

Socket make_socket(const addrinfo& address) {
  Socket made(socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
  if (!made.is_open()) throw Error(ErrorCode::kFabric, fmt::format("no socket could be made: {}", reason()));
  return made;
}

void set_option(const Socket& socket, int level, int name, int value) {
  setsockopt(socket.fd(), level, name, &value, sizeof(value));
}

bool is_again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

[[noreturn]] void throw_late(const std::string& what) {
  throw Error(ErrorCode::kTimeout, fmt::format("the deadline passed while this process waited for {}", what));
}

}  // namespace

std::string Endpoint::to_string() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Endpoint Endpoint::parse(const std::string& text) {
  const size_t colon = text.rfind(':');
  check_arg(colon != std::string::npos && colon > 0, "address is '{}'; it must be host:port", text);
  Endpoint endpoint{text.substr(0, colon), 0};
  if (endpoint.host.front() == '[' && endpoint.host.back() == ']') {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  }
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, endpoint.port);
  check_arg(error == std::errc() && rest == end && !endpoint.host.empty(),
            "address is '{}'; it must be host:port with a port up to 65535", text);
  return endpoint;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

void Socket::send(std::span<const std::byte> bytes, Deadline deadline, const std::string& what) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (!is_again(errno)) {
      throw Error(ErrorCode::kFabric, fmt::format("the connection broke at {}: {}", what, reason()));
    } else if (!wait_for(fd_, POLLOUT, deadline)) {
      throw_late(what);
    }
  }
}

void Socket::receive(std::span<std::byte> bytes, Deadline deadline, const std::string& what) const {
  while (!bytes.empty()) {
    const int64_t got = receive_some(bytes);
    if (got < 0) throw Error(ErrorCode::kFabric, fmt::format("the peer closed the connection at {}", what));
    bytes = bytes.subspan(static_cast<size_t>(got));
    if (got == 0 && !wait_for(fd_, POLLIN, deadline)) throw_late(what);
  }
}

int64_t Socket::receive_some(std::span<std::byte> bytes) const {
  const ssize_t got = recv(fd_, bytes.data(), bytes.size(), 0);
  if (got > 0) return got;
  return got < 0 && is_again(errno) ? 0 : -1;
}

Listener::Listener(const Endpoint& at) {
  const AddressList list = look_up(at, true);
  // Of several, the one that takes both families.
  const addrinfo* chosen = list.get();
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET6) chosen = one;
  }
  socket_ = make_socket(*chosen);
  set_option(socket_, SOL_SOCKET, SO_REUSEADDR, 1);
  if (chosen->ai_family == AF_INET6) set_option(socket_, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(socket_.fd(), chosen->ai_addr, chosen->ai_addrlen) != 0 || listen(socket_.fd(), SOMAXCONN) != 0) {
    throw Error(ErrorCode::kFabric, fmt::format("cannot listen at {}: {}", at.to_string(), reason()));
  }
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  getsockname(socket_.fd(), reinterpret_cast<sockaddr*>(&own), &length);
  port_ = ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(own).sin6_port
                                          : reinterpret_cast<sockaddr_in&>(own).sin_port);
}

Socket Listener::accept() const {
  Socket accepted(accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (accepted.is_open()) set_option(accepted, IPPROTO_TCP, TCP_NODELAY, 1);
  return accepted;
}

Socket connect(const Endpoint& to, Deadline deadline) {
  const AddressList list = look_up(to, false);
  Socket made = make_socket(*list);
  set_option(made, IPPROTO_TCP, TCP_NODELAY, 1);
  if (::connect(made.fd(), list->ai_addr, list->ai_addrlen) == 0) return made;
  int error = errno;
  if (error == EINPROGRESS) {
    if (!wait_for(made.fd(), POLLOUT, deadline)) throw_late(fmt::format("a connection to {}", to.to_string()));
    socklen_t length = sizeof(error);
    getsockopt(made.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error != 0) {
    throw Error(ErrorCode::kFabric, fmt::format("no connection to {}: {}", to.to_string(), std::strerror(error)));
  }
  return made;
}

std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  std::vector<std::string> near, far;
  if (getifaddrs(&list) != 0) return {"127.0.0.1"};
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char host[NI_MAXHOST];
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(one->ifa_addr, length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (std::strchr(host, '%') != nullptr) continue;  // link-local: its scope is a name of this machine's
    ((one->ifa_flags & IFF_LOOPBACK) != 0 ? near : far).push_back(host);
  }
  freeifaddrs(list);
  far.insert(far.end(), near.begin(), near.end());
  return far;
}

void wait_readable(std::span<const int> fds, Deadline deadline) {
  std::vector<pollfd> all;
  for (const int fd : fds) all.push_back({fd, POLLIN, 0});
  poll(all.data(), all.size(), milliseconds_until(deadline));  // early is fine: the caller looks again
}

}  // namespace mk

// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_wire.cc — see soft_wire.h.
#include "tests/support/soft_nic/soft_wire.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace mk::test::soft {
namespace {

// A name that begins with a zero is in no folder and goes with its socket.
socklen_t name_socket(const Gid& gid, sockaddr_un& address) {
  std::string name = "mkernel_soft_nic.";
  for (const uint8_t byte : gid) name += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  address = {};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

}  // namespace

Wire::Wire(const Gid& own)
    : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
      buffer_(sizeof(PacketHead) + kMostPayload) {
  sockaddr_un address;
  const socklen_t bytes = name_socket(own, address);
  if (bind(socket_, reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    close(socket_);
    socket_ = -1;
  }
}

Wire::~Wire() {
  if (socket_ >= 0) close(socket_);
}

Carried Wire::send(const Gid& to, const PacketHead& head, const std::byte* payload, size_t bytes) {
  sockaddr_un address;
  iovec pieces[2] = {{const_cast<PacketHead*>(&head), sizeof(head)}, {const_cast<std::byte*>(payload), bytes}};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = name_socket(to, address);
  message.msg_iov = pieces;
  message.msg_iovlen = bytes == 0 ? 1 : 2;
  if (sendmsg(socket_, &message, MSG_NOSIGNAL) >= 0) return Carried::kYes;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == EINTR ? Carried::kNotNow
                                                                                       : Carried::kNobodyThere;
}

std::optional<Packet> Wire::receive() {
  const ssize_t got = recv(socket_, buffer_.data(), buffer_.size(), 0);
  if (got < static_cast<ssize_t>(sizeof(PacketHead))) return {};
  Packet packet;
  std::memcpy(&packet.head, buffer_.data(), sizeof(PacketHead));
  packet.payload.assign(buffer_.begin() + sizeof(PacketHead), buffer_.begin() + got);
  return packet;
}

}  // namespace mk::test::soft

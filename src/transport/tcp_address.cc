// SPDX-License-Identifier: MIT
// transport/tcp_address.cc — addresses as bytes.
#include "transport/tcp_address.h"

#include <fmt/format.h>

#include <cstring>

#include "mkernel/error.h"
#include "transport/tcp_frame.h"

namespace mk {
namespace {

// On the wire: Prefix, then as many Entries.
struct Prefix {
  uint32_t version = kTcpVersion;
  uint16_t connections = 0;
  uint16_t num_entries = 0;
};
struct Entry {
  uint16_t family = 0;  // 4 or 6
  uint16_t port = 0;
  uint8_t address[16]{};
};
static_assert(sizeof(Prefix) == 8 && sizeof(Entry) == 20);

Entry to_entry(const SocketAddress& place) {
  Entry entry;
  if (place.storage.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(place.storage);
    entry.family = 4;
    entry.port = ntohs(in.sin_port);
    std::memcpy(entry.address, &in.sin_addr, sizeof(in.sin_addr));
  } else {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(place.storage);
    entry.family = 6;
    entry.port = ntohs(in.sin6_port);
    std::memcpy(entry.address, &in.sin6_addr, sizeof(in.sin6_addr));
  }
  return entry;
}

SocketAddress to_place(const Entry& entry) {
  if (entry.family == 4) {
    in_addr address;
    std::memcpy(&address, entry.address, sizeof(address));
    return SocketAddress::v4(address, entry.port);
  }
  in6_addr address;
  std::memcpy(&address, entry.address, sizeof(address));
  return SocketAddress::v6(address, entry.port);
}

}  // namespace

std::string encode(const TcpAddress& address) {
  Prefix prefix;
  prefix.connections = static_cast<uint16_t>(address.connections);
  prefix.num_entries = static_cast<uint16_t>(address.places.size());
  std::string bytes(reinterpret_cast<const char*>(&prefix), sizeof(prefix));
  for (const SocketAddress& place : address.places) {
    const Entry entry = to_entry(place);
    bytes.append(reinterpret_cast<const char*>(&entry), sizeof(entry));
  }
  return bytes;
}

TcpAddress decode_address(const std::string& bytes, int rank) {
  const auto check = [&](bool holds, const std::string& wrong) {
    if (!holds) throw Error(ErrorCode::kFabric, fmt::format("the tcp address of rank {} {}", rank, wrong));
  };
  Prefix prefix;
  check(bytes.size() >= sizeof(prefix), fmt::format("has only {} bytes", bytes.size()));
  std::memcpy(&prefix, bytes.data(), sizeof(prefix));
  check(prefix.version == kTcpVersion, fmt::format("is of version {}, not {}", prefix.version, kTcpVersion));
  check(bytes.size() == sizeof(prefix) + prefix.num_entries * sizeof(Entry),
        fmt::format("has {} bytes, which is not what {} places need", bytes.size(), prefix.num_entries));
  check(prefix.num_entries > 0, "names no place");
  TcpAddress address;
  address.connections = prefix.connections;
  for (size_t i = 0; i < prefix.num_entries; ++i) {
    Entry entry;
    std::memcpy(&entry, bytes.data() + sizeof(prefix) + i * sizeof(entry), sizeof(entry));
    check(entry.family == 4 || entry.family == 6, fmt::format("has a place of unknown family {}", entry.family));
    address.places.push_back(to_place(entry));
  }
  return address;
}

}  // namespace mk

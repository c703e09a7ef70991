// SPDX-License-Identifier: MIT
// transport/socket_address.cc — see socket_address.h.
#include "transport/socket_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <set>

#include "base/check.h"
#include "transport/socket.h"

namespace mk {
namespace {

template <class Address>
SocketAddress wrap(const Address& address) {
  SocketAddress made;
  std::memcpy(&made.storage, &address, made.bytes = sizeof(address));
  return made;
}

const sockaddr_in& v4_of(const SocketAddress& address) { return reinterpret_cast<const sockaddr_in&>(address.storage); }
const sockaddr_in6& v6_of(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in6&>(address.storage);
}

// False for what a peer cannot use: a link-local address has a meaning only beside the name of an interface.
bool place_of(const ifaddrs& entry, int port, SocketAddress& place) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return false;
  if (entry.ifa_addr->sa_family == AF_INET) {
    place = SocketAddress::v4(reinterpret_cast<const sockaddr_in*>(entry.ifa_addr)->sin_addr, port);
    return true;
  }
  if (entry.ifa_addr->sa_family != AF_INET6) return false;
  const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr;
  if (IN6_IS_ADDR_LINKLOCAL(&address)) return false;
  place = SocketAddress::v6(address, port);
  return true;
}

}  // namespace

SocketAddress SocketAddress::v4(const in_addr& address, int port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(static_cast<uint16_t>(port));
  in.sin_addr = address;
  return wrap(in);
}

SocketAddress SocketAddress::v6(const in6_addr& address, int port) {
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(static_cast<uint16_t>(port));
  in.sin6_addr = address;
  return wrap(in);
}

SocketAddress SocketAddress::any(int family, int port) {
  return family == AF_INET6 ? v6(in6addr_any, port) : v4({INADDR_ANY}, port);
}

std::string SocketAddress::host() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (is_v6()) {
    inet_ntop(AF_INET6, &v6_of(*this).sin6_addr, text, sizeof(text));
  } else {
    inet_ntop(AF_INET, &v4_of(*this).sin_addr, text, sizeof(text));
  }
  return text;
}

int SocketAddress::port() const { return ntohs(is_v6() ? v6_of(*this).sin6_port : v4_of(*this).sin_port); }

std::string to_text(const SocketAddress& address) { return fmt::format("{} port {}", address.host(), address.port()); }

std::string Endpoint::to_string() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

bool Endpoint::is_number() const {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &address) == 1;
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

std::vector<SocketAddress> look_up(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int failed = getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list);
  check_arg(failed == 0, "host is '{}'; it cannot be looked up: {}", endpoint.host, gai_strerror(failed));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> keeper(list, freeaddrinfo);
  std::vector<SocketAddress> places;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    SocketAddress& place = places.emplace_back();
    std::memcpy(&place.storage, one->ai_addr, place.bytes = one->ai_addrlen);
  }
  return places;
}

std::vector<SocketAddress> local_places(const std::string& interface, int port) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw_errno("the network interfaces cannot be listed", errno);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> keeper(list, freeifaddrs);
  std::vector<SocketAddress> places, loops;
  std::set<std::string> names;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    SocketAddress place;
    if (!place_of(*entry, port, place)) continue;
    names.insert(entry->ifa_name);
    if (!interface.empty() && interface != entry->ifa_name) continue;
    ((entry->ifa_flags & IFF_LOOPBACK) != 0 ? loops : places).push_back(place);
  }
  if (places.empty()) places = std::move(loops);
  check_arg(!places.empty(), "the network interface is '{}'; those with an address are: {}", interface,
            fmt::join(names, ", "));
  return places;
}

}  // namespace mk

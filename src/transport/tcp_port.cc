// SPDX-License-Identifier: MIT
// transport/tcp_port.cc — see tcp_port.h.
#include "transport/tcp_port.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "transport/tcp_address.h"
#include "transport/tcp_fabric.h"
#include "transport/tcp_meeting.h"

namespace mk {

TcpPort::TcpPort(const PortSettings& settings, const WindowRegistry& windows) : settings_(settings), windows_(windows) {
  constexpr int kMostConnections = 64;
  const TcpSettings& tcp = settings.tcp;
  check_arg(tcp.connections >= 1 && tcp.connections <= kMostConnections,
            "the tcp fabric's connections are {}; it must be 1 to {}", tcp.connections, kMostConnections);
  check_arg(tcp.queue_puts >= 1, "the tcp fabric's queue_puts is {}; it must be at least 1", tcp.queue_puts);
  check_arg(tcp.stripe_bytes >= 1, "the tcp fabric's stripe_bytes is {}; it must be at least 1", tcp.stripe_bytes);
  check_arg(tcp.buffer_bytes >= 0, "the tcp fabric's buffer_bytes is {}; it must be at least 0", tcp.buffer_bytes);
  listener_ = open_listener(0, tcp.buffer_bytes);
  address_ = encode({tcp.connections, local_places(settings.interface, port_of(listener_))});
}

std::unique_ptr<Fabric> TcpPort::connect(const std::vector<std::string>& addresses) {
  const WorldShape& world = settings_.world;
  check_arg(static_cast<int>(addresses.size()) == world.size(), "there are {} addresses for {} ranks", addresses.size(),
            world.size());
  check_arg(static_cast<bool>(listener_), "the tcp port of rank {} was connected before", settings_.rank);
  std::vector<TcpAddress> peers(world.nodes);
  for (int node = 0; node < world.nodes; ++node) {
    const int peer = world.rank_at(node, world.local_of(settings_.rank));
    if (peer == settings_.rank) continue;
    peers[node] = decode_address(addresses[peer], peer);
    check_arg(peers[node].connections == settings_.tcp.connections,
              "rank {} wants {} tcp connections to a peer and rank {} wants {}; they must be the same", peer,
              peers[node].connections, settings_.rank, settings_.tcp.connections);
  }
  TcpMeeting meeting(settings_, std::move(listener_), std::move(peers));
  return std::make_unique<TcpFabric>(settings_, windows_, meeting.run());
}

std::string why_no_tcp() {
  for (const int family : {AF_INET, AF_INET6}) {
    if (open_socket(family)) return {};
  }
  return std::string("no socket can be opened: ") + std::strerror(errno);
}

}  // namespace mk

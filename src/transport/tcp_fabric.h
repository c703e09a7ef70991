// SPDX-License-Identifier: MIT
// transport/tcp_fabric.h — a fabric over tcp: several connections to each rank of the rail, one thread, no waiting.
//
// `put` only queues; `poll` sends, receives and completes.  A fabric that fails closes all its connections, so its
// peers fail as well instead of waiting for it.
#pragma once

#include <sys/epoll.h>

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/fabric.h"
#include "transport/fabric_port.h"
#include "transport/socket.h"
#include "transport/tcp_parts.h"
#include "transport/tcp_receiver.h"
#include "transport/tcp_sender.h"
#include "transport/window_registry.h"

namespace mk {

class TcpFabric : public Fabric {
 public:
  // `sockets`: the connections to each node's rank of this rail, none to this rank itself.  Throws Error.
  TcpFabric(const PortSettings& settings, const WindowRegistry& windows, std::vector<std::vector<Fd>> sockets);
  ~TcpFabric() override { close_links(); }

  PutResult put(const Command& command, uint64_t ticket) override;
  PutResult poll(std::vector<uint64_t>& completed) override;
  std::string failure() const override { return failure_; }
  void nap(std::chrono::microseconds most) override;

 private:
  struct Link {
    Link(Fd connected, int peer_rank, const PortSettings& settings, const WindowRegistry& windows, TcpParts& parts)
        : socket(std::move(connected)),
          peer(peer_rank),
          sender(socket.number(), settings.tcp),
          receiver(socket.number(), peer_rank, settings.rank, windows, parts) {}

    Fd socket;
    int peer;
    bool is_readable = true;  // until a read says otherwise
    TcpSender sender;
    TcpReceiver receiver;
  };

  using Links = std::span<const std::unique_ptr<Link>>;

  Links links_to(uint32_t rank) const;
  TcpSender& next_sender(Links links);
  void look();
  void move(Link& link);
  PutResult fail(std::string why);
  void close_links();

  PortSettings settings_;
  const WindowRegistry& windows_;
  Fd epoll_;
  std::vector<TcpParts> parts_;               // [node]: that arrive
  std::deque<uint32_t> parts_left_;           // of each put in parts that leaves, the oldest first
  std::vector<std::unique_ptr<Link>> links_;  // those to one peer are neighbours
  uint32_t num_puts_ = 0;
  size_t turn_ = 0;  // which of a peer's connections is asked first
  std::string failure_;
};

}  // namespace mk

// SPDX-License-Identifier: MIT
// transport/tcp_fabric.cc — see tcp_fabric.h.
#include "transport/tcp_fabric.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <utility>

#include "base/math.h"
#include "base/what.h"
#include "mkernel/error.h"
#include "transport/resolved_put.h"

namespace mk {

TcpFabric::TcpFabric(const PortSettings& settings, const WindowRegistry& windows, std::vector<std::vector<Fd>> sockets)
    : settings_(settings), windows_(windows), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw_errno("no epoll can be had", errno);
  const WorldShape& world = settings.world;
  for (const std::vector<Fd>& to_node : sockets) parts_.emplace_back(static_cast<uint32_t>(to_node.size()));
  for (int node = 0; node < world.nodes; ++node) {
    const int peer = world.rank_at(node, world.local_of(settings.rank));
    for (Fd& socket : sockets[node]) {
      links_.push_back(std::make_unique<Link>(std::move(socket), peer, settings, windows, parts_[node]));
      epoll_event event{};
      event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
      event.data.ptr = links_.back().get();
      if (epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, links_.back()->socket.number(), &event) != 0) {
        throw_errno("a connection cannot be watched", errno);
      }
    }
  }
}

PutResult TcpFabric::put(const Command& c, uint64_t ticket) {
  if (!failure_.empty()) return PutResult::kFailed;
  const std::byte* from = windows_.find(c.from_window, settings_.rank, c.from_offset, c.bytes);
  const bool lands = windows_.contains(c.to_window, c.to_offset, c.bytes) &&
                     windows_.contains(c.signal_window, uint64_t{c.signal_index} * sizeof(uint64_t), sizeof(uint64_t));
  if (from == nullptr || !lands) return fail(describe_bad_put(c, settings_.rank));
  const Links links = links_to(c.to_rank);
  if (links.empty()) {
    return fail(
        fmt::format("rank {} has no connection to rank {}: only ranks of one rail have", settings_.rank, c.to_rank));
  }
  const uint64_t stripes = std::clamp<uint64_t>(c.bytes / settings_.tcp.stripe_bytes, 1, links.size());
  const uint64_t part_bytes = std::max<uint64_t>(ceil_div(c.bytes, stripes), 1);
  const uint64_t num_parts = std::max<uint64_t>(ceil_div(c.bytes, part_bytes), 1);  // a put of no bytes is one
  const auto add_room = [](size_t sum, const std::unique_ptr<Link>& link) { return sum + link->sender.room(); };
  if (std::accumulate(links.begin(), links.end(), size_t{0}, add_room) < num_parts) return PutResult::kFull;
  TcpFrame frame;
  frame.to_rank = c.to_rank;
  frame.to_window = c.to_window;
  frame.signal_window = c.signal_window;
  frame.signal_index = c.signal_index;
  frame.amount = c.amount;
  frame.stamp = c.stamp;
  frame.put = num_puts_++;
  frame.num_parts = static_cast<uint32_t>(num_parts);
  uint32_t* const parts_left = num_parts > 1 ? &parts_left_.emplace_back(frame.num_parts) : nullptr;
  for (uint64_t i = 0; i < num_parts; ++i) {
    const uint64_t at = i * part_bytes;
    frame.to_offset = c.to_offset + at;
    frame.bytes = std::min(part_bytes, c.bytes - at);
    next_sender(links).add(frame, from + at, ticket, parts_left);
  }
  return PutResult::kSent;
}

TcpFabric::Links TcpFabric::links_to(uint32_t rank) const {
  const auto is_peer = [&](const std::unique_ptr<Link>& link) { return static_cast<uint32_t>(link->peer) == rank; };
  const auto first = std::ranges::find_if(links_, is_peer);
  return {first, std::find_if_not(first, links_.end(), is_peer)};
}

// Of those with room the one with the least to send, of equals each in turn.
TcpSender& TcpFabric::next_sender(Links links) {
  const auto worth = [](const Link& link) { return std::pair(link.sender.room() == 0, link.sender.unsent_bytes()); };
  Link* best = links[turn_ % links.size()].get();
  for (size_t i = 1; i < links.size(); ++i) {
    Link* const link = links[(turn_ + i) % links.size()].get();
    if (worth(*link) < worth(*best)) best = link;
  }
  ++turn_;
  return best->sender;
}

PutResult TcpFabric::poll(std::vector<uint64_t>& completed) {
  if (!failure_.empty()) return PutResult::kFailed;
  try {
    look();
    for (const auto& link : links_) {
      move(*link);
      link->sender.take_completed(completed);
    }
    while (!parts_left_.empty() && parts_left_.front() == 0) parts_left_.pop_front();
  } catch (const std::exception& error) {
    return fail(what_of(error));
  }
  return PutResult::kSent;
}

// What the kernel has noticed.  Edges only, so a link remembers what it may do until the kernel says no.
void TcpFabric::look() {
  epoll_event events[64];
  const int num = epoll_wait(epoll_.number(), events, std::size(events), 0);
  for (int i = 0; i < num; ++i) {
    Link& link = *static_cast<Link*>(events[i].data.ptr);
    if ((events[i].events & EPOLLERR) != 0) link.sender.reap();
    if ((events[i].events & EPOLLOUT) != 0) link.sender.unblock();
    if ((events[i].events & ~uint32_t{EPOLLOUT}) != 0) link.is_readable = true;
  }
}

void TcpFabric::move(Link& link) {
  TcpSender& sender = link.sender;
  const int error = sender.send();
  // The kernel, too, has the deadline, and may notice before we do.  It then ends the connection, which would look
  // closed.
  if (error == ETIMEDOUT ||
      (sender.is_waiting() && TcpSender::Clock::now() - sender.blocked_since() > settings_.deadline)) {
    throw Error(ErrorCode::kFabric, fmt::format("rank {} took nothing from rank {} for {} ms", link.peer,
                                                settings_.rank, settings_.deadline.count()));
  }
  // A connection that takes no more may hold the reason among what can be read: that comes first.
  if (link.is_readable || error != 0) {
    link.is_readable = link.receiver.receive() == TcpReceiver::State::kMoreIsThere;
  }
  if (error != 0) throw_errno(fmt::format("rank {} cannot send to rank {}", settings_.rank, link.peer), error);
}

void TcpFabric::nap(std::chrono::microseconds most) {
  for (const auto& link : links_) {
    if (link->is_readable || link->sender.has_work()) return;
  }
  pollfd watched{epoll_.number(), POLLIN, 0};
  const timespec timeout{most.count() / 1'000'000, most.count() % 1'000'000 * 1000};
  ppoll(&watched, 1, &timeout, nullptr);
}

PutResult TcpFabric::fail(std::string why) {
  failure_ = std::move(why);
  close_links();
  return PutResult::kFailed;
}

// What is lent may change from now on, so the kernel must not send it; the queues, too, are lent.
void TcpFabric::close_links() {
  for (const auto& link : links_) {
    if (link->sender.is_lent()) abort_on_close(link->socket);
    link->socket = Fd();
  }
  links_.clear();
}

}  // namespace mk

// SPDX-License-Identifier: MIT
// transport/tcp_sender.cc — vectored sends, with and without a copy.
#include "transport/tcp_sender.h"

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>  // <linux/errqueue.h> needs timespec

#include <algorithm>
#include <cerrno>

namespace mk {
namespace {

constexpr size_t kMostPieces = 64;

// Other connections wait meanwhile.  A call that has more to send goes on as long as the peer takes it; with whole puts
// of 16 MiB that carried a fifth less.
constexpr uint64_t kMostPerTurn = 1 << 20;

const sock_extended_err* zerocopy_report(msghdr& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    const bool is_error = (part->cmsg_level == SOL_IP && part->cmsg_type == IP_RECVERR) ||
                          (part->cmsg_level == SOL_IPV6 && part->cmsg_type == IPV6_RECVERR);
    if (!is_error) continue;
    const auto* report = reinterpret_cast<const sock_extended_err*>(CMSG_DATA(part));
    if (report->ee_origin == SO_EE_ORIGIN_ZEROCOPY) return report;
  }
  return nullptr;
}

}  // namespace

TcpSender::TcpSender(int socket, const TcpSettings& settings)
    : socket_(socket),
      most_puts_(static_cast<size_t>(settings.queue_puts)),
      zerocopy_bytes_(settings.zerocopy_bytes),
      keeps_zerocopy_(settings.zerocopy == Zerocopy::kAlways) {
  const int on = 1;
  zerocopy_ =
      settings.zerocopy != Zerocopy::kNever && setsockopt(socket_, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)) == 0;
}

void TcpSender::add(const TcpFrame& frame, const std::byte* payload, uint64_t ticket, uint32_t* parts_left) {
  queue_.push_back({frame, payload, ticket, parts_left});
  unsent_bytes_ += queue_.back().total();
}

// Headers and payloads of what is next, at most so many bytes; returns how many they are.
uint64_t TcpSender::gather(std::vector<iovec>& pieces, uint64_t most) {
  pieces.clear();
  uint64_t bytes = 0;
  const auto add_piece = [&](const void* at, uint64_t size) {
    size = std::min(size, most - bytes);
    if (size > 0) pieces.push_back({const_cast<void*>(at), size});
    bytes += size;
  };
  for (size_t i = num_sent_; i < queue_.size() && pieces.size() + 2 <= kMostPieces && bytes < most; ++i) {
    const Outgoing& put = queue_[i];
    const uint64_t header_sent = std::min<uint64_t>(put.sent, sizeof(put.frame));
    const uint64_t payload_sent = put.sent - header_sent;
    add_piece(reinterpret_cast<const std::byte*>(&put.frame) + header_sent, sizeof(put.frame) - header_sent);
    add_piece(put.payload + payload_sent, put.frame.bytes - payload_sent);
  }
  return bytes;
}

int TcpSender::send() {
  for (uint64_t left = kMostPerTurn; left > 0 && has_work();) {
    const uint64_t bytes = gather(pieces_, left);
    msghdr message{};
    message.msg_iov = pieces_.data();
    message.msg_iovlen = pieces_.size();
    bool is_zerocopy = zerocopy_ && bytes >= zerocopy_bytes_;
    ssize_t sent = sendmsg(socket_, &message, MSG_NOSIGNAL | (is_zerocopy ? MSG_ZEROCOPY : 0));
    if (sent < 0 && errno == ENOBUFS && is_zerocopy) {  // too many pages are pinned: this once it copies
      is_zerocopy = false;
      sent = sendmsg(socket_, &message, MSG_NOSIGNAL);
    }
    if (sent >= 0) {
      advance(static_cast<uint64_t>(sent), is_zerocopy);
      left -= static_cast<uint64_t>(sent);
    } else if (errno == EAGAIN) {
      blocked_ = true;
      blocked_since_ = Clock::now();
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

void TcpSender::advance(uint64_t bytes, bool is_zerocopy) {
  if (is_zerocopy) {
    ++zerocopy_sends_;
    done_ahead_.push_back(false);
  }
  unsent_bytes_ -= bytes;
  while (bytes > 0) {
    Outgoing& put = queue_[num_sent_];
    const uint64_t part = std::min(bytes, put.total() - put.sent);
    put.sent += part;
    bytes -= part;
    if (is_zerocopy) put.lent_for = zerocopy_sends_;
    if (put.sent == put.total()) ++num_sent_;
  }
}

void TcpSender::reap() {
  for (;;) {
    alignas(cmsghdr) char control[128];
    msghdr message{};
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (recvmsg(socket_, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    const sock_extended_err* report = zerocopy_report(message);
    if (report == nullptr) continue;
    note_done(report->ee_info, report->ee_data);
    if (report->ee_code == SO_EE_CODE_ZEROCOPY_COPIED && !keeps_zerocopy_) zerocopy_ = false;
  }
}

// The kernel numbers zerocopy sends from 0, in 32 bits, and may report a range ahead of an earlier one.
void TcpSender::note_done(uint32_t first, uint32_t last) {
  const uint32_t base = static_cast<uint32_t>(zerocopy_done_);
  for (uint32_t i = first - base; i <= last - base && i < done_ahead_.size(); ++i) done_ahead_[i] = true;
  while (!done_ahead_.empty() && done_ahead_.front()) {
    done_ahead_.pop_front();
    ++zerocopy_done_;
  }
}

void TcpSender::take_completed(std::vector<uint64_t>& completed) {
  while (num_sent_ > 0 && queue_.front().lent_for <= zerocopy_done_) {
    const Outgoing& put = queue_.front();
    if (put.parts_left == nullptr || --*put.parts_left == 0) completed.push_back(put.ticket);
    queue_.pop_front();
    --num_sent_;
  }
}

}  // namespace mk

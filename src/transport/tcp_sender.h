// SPDX-License-Identifier: MIT
// transport/tcp_sender.h — puts, and parts of puts, that leave over one tcp connection.
//
// They wait in a queue.  One call sends many of them, header and payload together.  They leave the queue in order,
// when the kernel no longer needs their source: at once if it copied, else when its error queue says so.  A header
// lies in the queue, so it stays in place as long as the kernel may read it.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "transport/tcp_frame.h"
#include "transport/tcp_settings.h"

namespace mk {

class TcpSender {
 public:
  using Clock = std::chrono::steady_clock;

  TcpSender(int socket, const TcpSettings& settings);

  size_t room() const { return most_puts_ - queue_.size(); }
  uint64_t unsent_bytes() const { return unsent_bytes_; }

  // Where there is room.  `parts_left` counts the parts of the put that are not complete, over all connections, and
  // stays where it is until there are none; null for a put that is whole.
  void add(const TcpFrame& frame, const std::byte* payload, uint64_t ticket, uint32_t* parts_left);

  // Sends all there is, or a good part of it.  When the kernel takes no more, `unblock` says when it does again.
  // 0, or errno.
  int send();
  bool is_waiting() const { return blocked_; }
  bool has_work() const { return !blocked_ && num_sent_ < queue_.size(); }
  Clock::time_point blocked_since() const { return blocked_since_; }
  void unblock() { blocked_ = false; }

  // Reads from the error queue which sends the kernel is done with.
  void reap();

  void take_completed(std::vector<uint64_t>& completed);

  // Whether the kernel may still read what lies in windows.
  bool is_lent() const { return zerocopy_done_ < zerocopy_sends_; }

 private:
  struct Outgoing {
    TcpFrame frame;
    const std::byte* payload;
    uint64_t ticket;
    uint32_t* parts_left;
    uint64_t sent = 0;      // bytes, of header and payload
    uint64_t lent_for = 0;  // complete once so many zerocopy sends are done

    uint64_t total() const { return sizeof(frame) + frame.bytes; }
  };

  uint64_t gather(std::vector<iovec>& pieces, uint64_t most);
  void advance(uint64_t bytes, bool is_zerocopy);
  void note_done(uint32_t first, uint32_t last);

  int socket_;
  size_t most_puts_;
  size_t zerocopy_bytes_;
  bool keeps_zerocopy_;
  bool zerocopy_ = false;

  std::deque<Outgoing> queue_;
  size_t num_sent_ = 0;  // of the queue's first, whole
  uint64_t unsent_bytes_ = 0;
  std::vector<iovec> pieces_;  // send's scratch
  bool blocked_ = false;
  Clock::time_point blocked_since_;

  uint64_t zerocopy_sends_ = 0;
  uint64_t zerocopy_done_ = 0;   // all sends before this one
  std::deque<bool> done_ahead_;  // [i]: send zerocopy_done_ + i
};

}  // namespace mk

// SPDX-License-Identifier: MIT
// transport/staged_sender.h — puts that leave for one peer through slots of host memory.
//
//   a slot is   until
//   filled      all its pieces were read out of their windows
//   sent        the inner fabric no longer needs it; puts that end here are complete, and need no poll to land
//   emptied     the peer's credit says so, and it is free again
//
// Slots are used in turn.  Puts that wait together leave in one slot if they fit.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "transport/fabric.h"
#include "transport/mover.h"
#include "transport/staged_link.h"

namespace mk {

class StagedSender {
 public:
  using Clock = std::chrono::steady_clock;

  // `mover` outlives it.  `deadline`: the longest time the peer may empty nothing.
  StagedSender(const StagedLink& link, int queue_puts, std::chrono::milliseconds deadline, Mover& mover);

  int peer() const { return link_.peer; }
  bool is_full() const { return waiting_.size() >= most_waiting_; }
  void add(const Command& command, const std::byte* from, uint64_t ticket);

  // Fills free slots with what waits.
  void fill();

  // A piece of the slot is in host memory.
  void piece_is_read(uint64_t slot);

  // Hands over what is filled, as far as there is room.
  PutResult send(Fabric& inner);

  // The inner fabric no longer needs the slot.
  void slot_is_sent(uint64_t slot, std::vector<uint64_t>& completed);

  // Whether pieces are being read.
  bool is_reading() const { return num_reads_ > 0; }

  // Throws Error if the peer empties nothing, or more than there was.
  void check_credit();

 private:
  struct Waiting {
    Command command;
    const std::byte* from;
    uint64_t ticket;
    uint64_t next = 0;  // byte
  };
  struct Slot {
    uint64_t bytes = 0;
    uint64_t num_reads = 0;
    bool is_under_way = false;
    std::vector<uint64_t> tickets;  // of puts that end here
  };
  bool has_free_slot() const;
  void fill_next();
  void add_piece(Slot& slot, Waiting& put);

  StagedLink link_;
  size_t most_waiting_;
  std::chrono::milliseconds deadline_;
  Mover& mover_;
  std::deque<Waiting> waiting_;
  std::vector<Slot> slots_;
  uint64_t num_filled_ = 0;  // slots, since the beginning
  uint64_t num_sent_ = 0;
  uint64_t num_done_ = 0;   // sent, and no longer needed, like all before
  uint64_t num_reads_ = 0;  // under way
  uint64_t credit_ = 0;     // when last looked at
  std::optional<Clock::time_point> waiting_since_;
};

}  // namespace mk

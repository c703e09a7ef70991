// SPDX-License-Identifier: MIT
// transport/rdma_sender.h — puts that leave for one peer, over all lanes to it.
//
// A put waits until lanes have room for its messages; one that is longer than a message may be, or than is good for
// one device alone, goes in parts.  It is complete when all its messages are.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/command.h"
#include "transport/rdma_keys.h"
#include "transport/rdma_lane.h"

namespace mk {

struct RdmaPut {
  Command command;
  uint64_t ticket = 0;
  const std::byte* from = nullptr;
  std::vector<uint32_t> lkeys;  // [device]
  RdmaKeys::Remote window;      // the whole one at the peer
};

class RdmaSender {
 public:
  using Clock = std::chrono::steady_clock;

  // `most_bytes` of a message.  The lanes are the fabric's.
  RdmaSender(int rank, int peer, std::vector<RdmaLane*> lanes, const RdmaSettings& settings, uint64_t most_bytes);

  int peer() const { return peer_; }
  const std::vector<RdmaLane*>& lanes() const { return lanes_; }

  bool is_full() const { return waiting_.size() >= most_waiting_; }
  void add(RdmaPut put);

  // Hands over what there is room for.  Throws Error.
  void move(Clock::time_point now);

  // A record that is no put's, with the next move; into the reserve, if it must.
  void say(RdmaRecord::Kind kind);

  // A message of a put is complete; the put's ticket follows the last.
  void complete(uint32_t slot, std::vector<uint64_t>& tickets);

  // When the peer last took something; or, if nothing was under way then, when something began to be.
  Clock::time_point since() const { return since_; }
  void note_progress(Clock::time_point now) { since_ = now; }
  bool is_idle() const;

  // The put of a message, for people.
  std::string describe(uint32_t slot) const;

 private:
  struct Outgoing {
    RdmaPut put;
    uint32_t slot = 0;
    uint32_t immediate = 0;
    bool needs_record = false;
    uint32_t num_parts = 0;
    uint64_t part_bytes = 0;
    uint64_t next = 0;  // byte
  };
  struct UnderWay {
    Command command;
    uint64_t ticket = 0;
    uint64_t messages = 0;
  };
  bool advance(Outgoing& out);
  void write_part(Outgoing& out, RdmaLane& lane);
  uint64_t part_bytes_of(uint64_t bytes) const;
  uint32_t take_slot();
  RdmaLane* choose_lane() const;

  int rank_;
  int peer_;
  std::vector<RdmaLane*> lanes_;
  uint64_t num_devices_;
  uint64_t most_bytes_;
  uint64_t stripe_bytes_;
  size_t most_waiting_;
  std::deque<Outgoing> waiting_;
  std::vector<UnderWay> puts_;  // [slot]
  std::vector<uint32_t> free_slots_;
  uint32_t next_number_ = 0;
  Clock::time_point since_ = Clock::now();
};

}  // namespace mk

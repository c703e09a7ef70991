// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_objects.h — what the software NIC hands out where libibverbs has its own.
//
// Each begins with the struct of libibverbs that its caller sees, so a pointer to one is a pointer to the other.
#pragma once

#include <infiniband/verbs.h>

#include <deque>
#include <map>
#include <vector>

#include "tests/support/soft_nic/soft_packet.h"

namespace mk::test::soft {

enum class QpKind {
  kRc,   // messages land and complete in order; their bytes may not
  kSrd,  // nothing is in order
};

struct SoftPd {
  ibv_pd base{};
};

struct SoftAh {
  ibv_ah base{};
  Gid gid{};
};

struct SoftMr {
  ibv_mr base{};
  unsigned access = 0;
  std::byte* memory = nullptr;   // what base.addr stands for: itself in host memory
  std::byte* mapping = nullptr;  // of a DMA-BUF
  uint64_t mapping_bytes = 0;
  bool is_device = false;  // what is written there is late

  bool covers(uint64_t address, uint64_t bytes) const {
    const auto begin = reinterpret_cast<uint64_t>(base.addr);
    return address >= begin && bytes <= base.length && address - begin <= base.length - bytes;
  }
  std::byte* at(uint64_t address) const { return memory + (address - reinterpret_cast<uint64_t>(base.addr)); }
  bool is_relaxed() const { return (access & IBV_ACCESS_RELAXED_ORDERING) != 0; }
};

struct SoftCq {
  struct Entry {
    ibv_wc completion;
    uint64_t reclaims = 0;  // sends that end with this one: their places are free once it has been polled
  };
  ibv_cq base{};
  std::deque<Entry> entries;
  bool is_overrun = false;
};

// A message that leaves.
struct Send {
  uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  bool is_signalled = true;
  uint32_t immediate = 0;
  const std::byte* from = nullptr;
  uint64_t bytes = 0;
  uint32_t lkey = 0;
  uint64_t to = 0;
  uint32_t rkey = 0;
  Gid gid{};  // of the peer
  uint32_t to_qp = 0;
  uint32_t queue_key = 0;
  uint64_t message = 0;
  uint64_t next = 0;  // byte to leave
  uint64_t packet_bytes = 0;
  bool has_left = false;
  bool is_answered = false;
  ibv_wc_status status = IBV_WC_SUCCESS;
};

struct Receive {
  uint64_t id = 0;
  std::byte* to = nullptr;
  uint64_t bytes = 0;
};

// A message that comes.
struct Incoming {
  uint64_t order = 0;  // of its first packet, among the queue pair's
  uint64_t bytes_here = 0;
  bool has_begun = false;
  bool is_refused = false;
  bool has_receive = false;
  Receive receive;
  uint32_t tries = 0;
};

// Bytes on their way through the machine: the NIC has them, memory has not.
struct Landing {
  uint64_t order = 0;  // of its message
  std::byte* to = nullptr;
  std::vector<std::byte> bytes;
  bool is_relaxed = false;
  uint64_t device_address = 0;  // 0: host memory
};

// A completion that waits until the bytes before it have landed.
struct Finishing {
  uint64_t order = 0;
  ibv_wc completion{};
};

struct SoftQp {
  ibv_qp_ex base{};
  QpKind kind = QpKind::kRc;
  ibv_qp_cap cap{};
  Gid peer_gid{};
  uint32_t peer_qp = 0;
  uint32_t queue_key = 0;
  uint32_t no_room_tries = 7;

  std::deque<Send> sends;    // posted and not over
  std::vector<Send> staged;  // between wr_start and wr_complete
  uint64_t next_message = 0;
  uint64_t num_taken = 0;      // places of the send queue
  uint64_t num_unclaimed = 0;  // sends that are over, since the last completion

  std::deque<Receive> receives;
  std::deque<Packet> air;  // came and not looked at
  std::map<MessageName, Incoming> incoming;
  uint64_t next_order = 0;
  std::vector<Landing> landings;
  std::deque<Finishing> finishing;

  uint32_t number() const { return base.qp_base.qp_num; }
  ibv_qp_state state() const { return base.qp_base.state; }
  bool can_receive() const { return state() == IBV_QPS_RTR || state() == IBV_QPS_RTS; }
};

}  // namespace mk::test::soft

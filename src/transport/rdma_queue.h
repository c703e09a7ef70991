// SPDX-License-Identifier: MIT
// transport/rdma_queue.h — a queue pair to one peer: where verbs (RC) and efa (SRD) differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/rdma_device.h"

namespace mk {

// Where a queue pair can be reached: what a rank's address has of each.
struct RdmaQueueAddress {
  uint8_t gid[16]{};
  uint32_t number = 0;
  uint32_t secret = 0;  // random: RC's first packet number, SRD's queue key
  uint16_t lid = 0;
  uint16_t depth = 0;  // of its lane: how many messages may be under way to it
  uint8_t mtu = 0;     // as ibv_mtu counts
  uint8_t reserved[3]{};
};
static_assert(sizeof(RdmaQueueAddress) == 32);

// One message to hand to the NIC.
struct RdmaPost {
  enum class Kind { kWrite, kSend };
  Kind kind = Kind::kWrite;
  bool is_signalled = true;  // whether it completes by itself or with the next that is
  uint32_t bytes = 0;
  const std::byte* from = nullptr;
  uint32_t lkey = 0;
  uint32_t rkey = 0;
  uint64_t to = 0;         // a write's
  uint32_t immediate = 0;  // a write's
  uint64_t id = 0;
};

class RdmaQueue {
 public:
  explicit RdmaQueue(const RdmaDevice& device) : device_(device) {}
  virtual ~RdmaQueue() = default;

  // Messages complete in the order of their posts, so that not each has to say so.
  virtual bool is_ordered() const = 0;

  // Throws Error.  Messages can be received before, and sent after.
  virtual void connect(const RdmaQueueAddress& peer) = 0;

  // One doorbell for all.  0, or errno, and then nothing is known of any.
  virtual int post(std::span<const RdmaPost> posts) = 0;

  int post_receives(ibv_recv_wr* first) {
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp(), first, &bad);
  }

  const RdmaDevice& device() const { return device_; }
  uint32_t number() const { return qp()->qp_num; }
  const RdmaQueueAddress& address() const { return address_; }

 protected:
  ibv_qp* qp() const { return qp_.get(); }

  // Takes a queue pair that was just made, or says why there is none.
  void adopt(ibv_qp* qp, uint32_t secret);

  const RdmaDevice& device_;
  IbvQp qp_;
  RdmaQueueAddress address_;
};

struct RdmaDepths {
  int sends = 0;
  int receives = 0;
};

}  // namespace mk

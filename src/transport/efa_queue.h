// SPDX-License-Identifier: MIT
// transport/efa_queue.h — a queue pair of EFA's scalable reliable datagrams (SRD) that talks to one peer.
//
// SRD has no connections, so the queue pair is ready from the start.  It talks to one peer only, so that its receiver
// knows who sent a message.  Each message arrives once, in any order.
#pragma once

#include "transport/rdma_queue.h"

namespace mk {

class EfaQueue : public RdmaQueue {
 public:
  // Throws Error.
  EfaQueue(const RdmaDevice& device, const RdmaDepths& depths);

  bool is_ordered() const override { return false; }
  void connect(const RdmaQueueAddress& peer) override;
  int post(std::span<const RdmaPost> posts) override;

 private:
  void make_ready();

  IbvAh way_;  // to the peer's device
  RdmaQueueAddress peer_;
};

// Whether the device is an EFA.
bool is_efa_device(ibv_device* device);

// The longest message of an open device.
uint64_t efa_most_bytes(const RdmaDevice& device);

}  // namespace mk

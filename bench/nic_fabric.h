// SPDX-License-Identifier: MIT
// bench/nic_fabric.h — the host's side of a NIC that a warp plays: puts are posted, completions are read.
//
// It calls no driver and reads no clock: the warp keeps the link's time.  The warp runs only inside paced launches, so
// puts of other kernels would never be delivered.
#pragma once

#include <string>
#include <vector>

#include "bench/nic_queue.h"
#include "transport/fabric.h"
#include "transport/window_registry.h"

namespace mk::bench {

class NicFabric : public Fabric {
 public:
  // The queue is zeroed and outlives this.
  NicFabric(const NicQueue& nic, const WindowRegistry& windows, int rank);

  PutResult put(const Command& command, uint64_t ticket) override;
  PutResult poll(std::vector<uint64_t>& completed) override;
  std::string failure() const override { return failure_; }

 private:
  NicQueue nic_;
  const WindowRegistry& windows_;
  int rank_;
  std::vector<uint64_t> tickets_;  // by a put's place in the queue
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;  // whose tickets were handed out
  std::string failure_;
};

}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// transport/rdma_address.h — where a rank's queue pairs can be reached: what FabricPort::address carries.
#pragma once

#include <string>
#include <vector>

#include "transport/rdma_queue.h"

namespace mk {

struct RdmaAddress {
  std::string kind;  // of fabric
  int nodes = 0;
  int devices = 0;
  int queues = 0;
  std::vector<RdmaQueueAddress> entries;  // for the rank of each node: for each device: its queues

  const RdmaQueueAddress& at(int node, int device, int queue) const {
    return entries[(static_cast<size_t>(node) * devices + device) * queues + queue];
  }
};

std::string encode(const RdmaAddress& address);

// Throws Error with what is wrong with the bytes, and whose they are; the answer fits `own`.
RdmaAddress decode_address(const std::string& bytes, int rank, const RdmaAddress& own);

}  // namespace mk

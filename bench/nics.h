// SPDX-License-Identifier: MIT
// bench/nics.h — the NICs of a world's ranks: their queues, and the fabrics that post to them.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/nic_queue.h"
#include "runtime/world_state.h"

namespace mk::bench {

// Outlives the World whose puts it carries.  A world of one node has no NICs, and empty queues.
class Nics {
 public:
  Nics(const WorldShape& world, double ns_per_byte);
  Nics(const Nics&) = delete;
  ~Nics();

  const NicQueue& queue(int rank) const { return queues_[rank]; }

  // For make_local_world: every rank's puts go to its NIC.
  runtime::FabricHook hook() const;

 private:
  void release() noexcept;

  std::vector<NicQueue> queues_;
  void* shared_ = nullptr;  // what the host and the GPU see
  void* words_ = nullptr;   // what only the GPU sees
};

}  // namespace mk::bench

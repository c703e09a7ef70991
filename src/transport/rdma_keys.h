// SPDX-License-Identifier: MIT
// transport/rdma_keys.h — the windows as NICs know them: own ones registered, peers' by address and key.
//
// The thread that makes a plan adds windows while the proxy looks others up.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "transport/rdma_memory.h"
#include "transport/window_registry.h"

namespace mk {

using RdmaDevices = std::vector<std::unique_ptr<RdmaDevice>>;

class RdmaKeys {
 public:
  // `mover`: of the device whose memory the windows are; null: they are host memory.
  RdmaKeys(const RdmaDevices& devices, const WindowRegistry& windows, int rank, MemoryOrdering ordering,
           Mover* mover = nullptr)
      : devices_(devices), windows_(windows), rank_(rank), ordering_(ordering), mover_(mover) {}

  // See FabricPort.
  std::string share(uint32_t window);
  void learn(uint32_t window, int rank, const std::string& key);

  // Empty if the window was not shared.  [device]
  std::vector<uint32_t> local_keys(uint32_t window) const;

  struct Remote {
    uint64_t address = 0;
    std::vector<uint32_t> keys;  // [device]; empty if nothing was learned
  };
  Remote remote(uint32_t window, uint32_t rank) const;

  // Where a signal of this rank is: null if it is outside or not shared.
  uint64_t* signal(uint32_t window, uint32_t index) const;

  // "host memory", "GPU memory by DMA-BUF": each way that was taken.
  std::string describe() const;

 private:
  const RdmaDevices& devices_;
  const WindowRegistry& windows_;
  int rank_;
  MemoryOrdering ordering_;
  Mover* mover_;

  mutable std::shared_mutex mutex_;
  std::map<uint32_t, std::vector<RdmaMemory>> own_;  // [device]
  std::map<std::pair<uint32_t, uint32_t>, Remote> remote_;
};

}  // namespace mk

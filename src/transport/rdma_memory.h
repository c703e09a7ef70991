// SPDX-License-Identifier: MIT
// transport/rdma_memory.h — memory that a NIC may read and write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/mover.h"
#include "transport/rdma_device.h"

namespace mk {

// How the NIC came to know the memory.
enum class MemoryWay {
  kHost,     // pages of this machine's memory
  kDmabuf,   // a GPU's, through a DMA-BUF
  kPeermem,  // a GPU's, through the nvidia-peermem module
};
const char* name_of(MemoryWay way);

struct RdmaMemory {
  IbvMr mr;  // null where there are no bytes
  MemoryWay way = MemoryWay::kHost;

  uint32_t lkey() const { return mr == nullptr ? 0 : mr->lkey; }
  uint32_t rkey() const { return mr == nullptr ? 0 : mr->rkey; }
};

// Of this machine.  Throws Error.
RdmaMemory register_memory(const RdmaDevice& device, std::byte* memory, uint64_t bytes, MemoryOrdering ordering);

// Of a GPU, which `mover` reaches.  Throws an Error that says what was tried.
RdmaMemory register_memory(const RdmaDevice& device, std::byte* memory, uint64_t bytes, MemoryOrdering ordering,
                           Mover& mover);

}  // namespace mk

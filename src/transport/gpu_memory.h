// SPDX-License-Identifier: MIT
// transport/gpu_memory.h — how a NIC can reach memory of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/socket.h"

namespace mk {

struct GpuMemory {
  Fd dmabuf;            // none if the driver does not hand one out
  uint64_t offset = 0;  // of the memory in it
};

// Of the current device.
GpuMemory find_gpu_memory(const std::byte* memory, uint64_t bytes);

}  // namespace mk

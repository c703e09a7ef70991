// SPDX-License-Identifier: MIT
// transport/gpu_memory.h — whether memory is a GPU's, and how another device of the machine can reach it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/socket.h"

namespace mk {

struct GpuMemory {
  bool is_gpu = false;
  Fd dmabuf;            // none if the driver does not hand one out
  uint64_t offset = 0;  // of the memory in it
};

GpuMemory find_gpu_memory(const std::byte* memory, uint64_t bytes);

}  // namespace mk

// SPDX-License-Identifier: MIT
// transport/rdma_memory.cc — see rdma_memory.h.
#include "transport/rdma_memory.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "mkernel/error.h"
#include "transport/gpu_memory.h"

namespace mk {
namespace {

std::string why(int error) { return error == 0 ? "not tried" : std::strerror(error); }

}  // namespace

const char* name_of(MemoryWay way) {
  switch (way) {
    case MemoryWay::kHost: return "host memory";
    case MemoryWay::kDmabuf: return "GPU memory by DMA-BUF";
    case MemoryWay::kPeermem: return "GPU memory by peermem";
  }
  return "";
}

RdmaMemory register_memory(const RdmaDevice& device, std::byte* memory, uint64_t bytes, MemoryOrdering ordering) {
  if (bytes == 0) return {};
  unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  if (ordering == MemoryOrdering::kRelaxed) access |= IBV_ACCESS_RELAXED_ORDERING;
  const GpuMemory gpu = find_gpu_memory(memory, bytes);
  int dmabuf_error = 0;
  if (gpu.dmabuf) {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    IbvMr mr(ibv_reg_dmabuf_mr(device.pd(), gpu.offset, bytes, address, gpu.dmabuf.number(), static_cast<int>(access)));
    if (mr != nullptr) return {std::move(mr), MemoryWay::kDmabuf};
    dmabuf_error = errno;
  }
  IbvMr mr(ibv_reg_mr(device.pd(), memory, bytes, access));
  const int error = errno;
  if (mr != nullptr) return {std::move(mr), gpu.is_gpu ? MemoryWay::kPeermem : MemoryWay::kHost};
  if (!gpu.is_gpu) {
    throw Error(ErrorCode::kFabric,
                fmt::format("{} cannot register {} bytes of host memory: {}; is `ulimit -l` large enough?",
                            device.name(), bytes, why(error)));
  }
  throw Error(ErrorCode::kUnavailable,
              fmt::format("{} cannot register {} bytes of GPU memory; by DMA-BUF: {}; by peermem: {}", device.name(),
                          bytes, why(dmabuf_error), why(error)));
}

}  // namespace mk

// SPDX-License-Identifier: MIT
// transport/rdma_memory.cc — see rdma_memory.h.
#include "transport/rdma_memory.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "mkernel/error.h"

namespace mk {
namespace {

unsigned access_of(MemoryOrdering ordering) {
  const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  return ordering == MemoryOrdering::kRelaxed ? access | IBV_ACCESS_RELAXED_ORDERING : access;
}

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
  IbvMr mr(ibv_reg_mr(device.pd(), memory, bytes, access_of(ordering)));
  if (mr == nullptr) {
    throw Error(ErrorCode::kFabric,
                fmt::format("{} cannot register {} bytes of host memory: {}; is `ulimit -l` large enough?",
                            device.name(), bytes, std::strerror(errno)));
  }
  return {std::move(mr), MemoryWay::kHost};
}

RdmaMemory register_memory(const RdmaDevice& device, std::byte* memory, uint64_t bytes, MemoryOrdering ordering,
                           Mover& mover) {
  if (bytes == 0) return {};
  const GpuMemory gpu = mover.find(memory, bytes);
  std::string dmabuf_trouble = "the driver hands none out";
  if (gpu.dmabuf) {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    IbvMr mr(ibv_reg_dmabuf_mr(device.pd(), gpu.offset, bytes, address, gpu.dmabuf.number(),
                               static_cast<int>(access_of(ordering))));
    if (mr != nullptr) return {std::move(mr), MemoryWay::kDmabuf};
    dmabuf_trouble = std::strerror(errno);
  }
  IbvMr mr(ibv_reg_mr(device.pd(), memory, bytes, access_of(ordering)));
  if (mr != nullptr) return {std::move(mr), MemoryWay::kPeermem};
  throw Error(ErrorCode::kUnavailable,
              fmt::format("{} cannot register {} bytes of GPU memory; by DMA-BUF: {}; by peermem: {}", device.name(),
                          bytes, dmabuf_trouble, std::strerror(errno)));
}

}  // namespace mk

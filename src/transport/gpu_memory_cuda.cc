// SPDX-License-Identifier: MIT
// transport/gpu_memory_cuda.cc — asks CUDA for the DMA-BUF of memory.
#include <unistd.h>

#include "base/cuda_api.h"
#include "transport/gpu_memory.h"

namespace mk {
namespace {

using RangeHandle = CUresult (*)(void*, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long);

// Null with a driver older than 11.7.
RangeHandle range_handle() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
  const cudaError_t result =
      cudaGetDriverEntryPointByVersion("cuMemGetHandleForAddressRange", &found, 11070, cudaEnableDefault, &status);
  if (result == cudaSuccess && status == cudaDriverEntryPointSuccess) return reinterpret_cast<RangeHandle>(found);
  cudaGetLastError();
  return nullptr;
}

}  // namespace

GpuMemory find_gpu_memory(const std::byte* memory, uint64_t bytes) {
  GpuMemory gpu;
  const RangeHandle handle = range_handle();
  if (handle == nullptr) return gpu;
  // A DMA-BUF is made of whole pages of the host.
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t begin = address / page * page;
  const uintptr_t end = (address + bytes + page - 1) / page * page;
  int fd = -1;
  if (handle(&fd, begin, end - begin, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) == CUDA_SUCCESS) {
    gpu.dmabuf = Fd(fd);
    gpu.offset = address - begin;
  }
  return gpu;
}

}  // namespace mk

// SPDX-License-Identifier: MIT
// runtime/cuda_ipc.cc — see cuda_ipc.h.
#include "runtime/cuda_ipc.h"

#include <cuda_runtime.h>

#include <span>

#include "base/check.h"
#include "base/cuda_api.h"
#include "base/hex.h"

namespace mk::runtime {
namespace {

constexpr const char* kRemedy =
    "processes of a node must be of one user and see each other's GPUs (CUDA_VISIBLE_DEVICES), and in containers share "
    "the machine's IPC and PID namespaces (docker: --ipc=host --pid=host); with MPS either all of them are its clients "
    "or none is";

}  // namespace

std::string ipc_handle(void* memory) {
  cudaIpcMemHandle_t handle{};
  check_cuda(cudaIpcGetMemHandle(&handle, memory), "share a window with other processes");
  return to_hex(std::as_bytes(std::span(&handle, 1)));
}

std::shared_ptr<std::byte> open_ipc(const std::string& text) {
  cudaIpcMemHandle_t handle{};
  check_arg(from_hex(text, std::as_writable_bytes(std::span(&handle, 1))), "'{}' is no handle of GPU memory", text);
  void* memory = nullptr;
  const cudaError_t result = cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess);
  if (result != cudaSuccess) {
    cudaGetLastError();
    throw Error(ErrorCode::kDevice, fmt::format("CUDA could not map a window of another process: {}; {}",
                                                cudaGetErrorString(result), kRemedy));
  }
  int device = 0;
  check_cuda(cudaGetDevice(&device), "name the current device");
  return {static_cast<std::byte*>(memory), [device](std::byte* mapped) {
            const OnDevice here(device);
            if (cudaIpcCloseMemHandle(mapped) != cudaSuccess) cudaGetLastError();
          }};
}

}  // namespace mk::runtime

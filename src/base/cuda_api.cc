// SPDX-License-Identifier: MIT
// base/cuda_api.cc — see cuda_api.h.
#include "base/cuda_api.h"

#include <fmt/format.h>

#include "base/atomics.h"
#include "mkernel/error.h"

namespace mk {
namespace {

// Leaves `function` null if the driver does not have it.
template <class Function>
void look_up_newer(const char* name, unsigned version, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
  const cudaError_t result = cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &status);
  if (result != cudaSuccess || status != cudaDriverEntryPointSuccess) {
    cudaGetLastError();
    found = nullptr;
  }
  function = reinterpret_cast<Function>(found);
}

template <class Function>
void look_up(const char* name, unsigned version, Function& function) {
  look_up_newer(name, version, function);
  if (function == nullptr)
    throw Error(ErrorCode::kUnavailable, fmt::format("the CUDA driver has no {}; it must be 12.0 or newer", name));
}

uint64_t word_of(CUcontext context) { return reinterpret_cast<uint64_t>(context); }

CudaDriver load() {
  CudaDriver driver;
  look_up("cuTensorMapEncodeTiled", 12000, driver.encode_tiled);
  look_up("cuCtxGetCurrent", 4000, driver.current_context);
  look_up("cuCtxSetCurrent", 4000, driver.set_current_context);
  look_up("cuStreamWriteValue64", 12000, driver.write_value);
  look_up("cuStreamWaitValue64", 12000, driver.wait_value);
  look_up("cuStreamBatchMemOp", 12000, driver.memory_ops);
  look_up_newer("cuFuncLoad", 12040, driver.load_function);
  look_up_newer("cuMemcpyBatchAsync", 12080, driver.copy_batch);
  return driver;
}

}  // namespace

void check_cuda(cudaError_t result, const char* attempted) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // an error that is told is not told again
  throw Error(ErrorCode::kDevice, fmt::format("CUDA could not {}: {}", attempted, cudaGetErrorString(result)));
}

void check_cuda(CUresult result, const char* attempted) {
  if (result == CUDA_SUCCESS) return;
  throw Error(ErrorCode::kDevice,
              fmt::format("CUDA could not {}: driver error {}", attempted, static_cast<int>(result)));
}

void join_device(int device) {
  thread_local int joined = -1;
  if (joined == device) return;
  check_cuda(cudaSetDevice(device), "use the World's device in a proxy");
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  check_cuda(cudaThreadExchangeStreamCaptureMode(&mode), "keep a proxy out of captures");
  joined = device;
}

// cudaGetDevice names device 0 to a thread without a context, so the context is what is looked at.  The primary context
// of each device is kept, because this is on the way of every launch; one that was reset is found to differ.
OnDevice::OnDevice(int device) noexcept {
  constexpr int kMostKnown = 64;
  static uint64_t primary[kMostKnown] = {};  // contexts
  const CudaDriver& driver = cuda_driver();
  if (driver.current_context(&before_) != CUDA_SUCCESS) before_ = nullptr;
  const bool is_kept = device >= 0 && device < kMostKnown;
  if (before_ != nullptr && is_kept && HostAtomics::load_acquire(&primary[device]) == word_of(before_)) return;
  if (cudaSetDevice(device) != cudaSuccess) {
    cudaGetLastError();
    return;
  }
  is_changed_ = true;
  CUcontext own = nullptr;
  if (is_kept && driver.current_context(&own) == CUDA_SUCCESS) {
    HostAtomics::store_release(&primary[device], word_of(own));  // pairs with the load above
  }
}

OnDevice::~OnDevice() {
  if (is_changed_) cuda_driver().set_current_context(before_);
}

void load_kernel(const void* kernel, size_t shared_bytes) {
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
             "reserve a kernel's shared memory");
  cudaFunction_t function = nullptr;
  check_cuda(cudaGetFuncBySymbol(&function, kernel), "find a kernel");
  // A driver that cannot be asked to load a function has done so when it hands it out.
  if (cuda_driver().load_function != nullptr) check_cuda(cuda_driver().load_function(function), "load a kernel");
}

const CudaDriver& cuda_driver() {
  static const CudaDriver driver = load();
  return driver;
}

}  // namespace mk

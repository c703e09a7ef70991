// SPDX-License-Identifier: MIT
// base/cuda_api.h — CUDA calls that throw, and the driver calls the runtime library does not have.
//
// Driver functions are looked up at run time, so nothing links against libcuda and a build machine
// needs no driver.
#pragma once

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <cstddef>

namespace mk {

// Throws Error(kDevice) with what was attempted and what CUDA said.
void check_cuda(cudaError_t result, const char* attempted);
void check_cuda(CUresult result, const char* attempted);

// Once for a proxy's thread: use the World's device, and do not break a capture that a user's thread has open.
void join_device(int device);

// Makes the primary context of a device the thread's current one, and at its end what was current before: another
// device, a context of the caller's own, or none at all, as in a thread that has not used CUDA yet.  An error that
// cannot be thrown here is reported by the next CUDA call.
class OnDevice {
 public:
  explicit OnDevice(int device) noexcept;
  OnDevice(const OnDevice&) = delete;
  ~OnDevice();

 private:
  CUcontext before_ = nullptr;
  bool is_changed_ = false;
};

// Loads a kernel on the current device, with room for so much dynamic shared memory.  Once it is loaded, another call
// changes nothing.
void load_kernel(const void* kernel, size_t shared_bytes);

struct CudaDriver {
  PFN_cuTensorMapEncodeTiled_v12000 encode_tiled = nullptr;
  PFN_cuCtxGetCurrent_v4000 current_context = nullptr;
  PFN_cuCtxSetCurrent_v4000 set_current_context = nullptr;
  PFN_cuStreamWriteValue64_v11070 write_value = nullptr;
  PFN_cuStreamWaitValue64_v11070 wait_value = nullptr;
  PFN_cuStreamBatchMemOp_v11070 memory_ops = nullptr;
  PFN_cuFuncLoad_v12040 load_function = nullptr;       // null with a driver older than 12.4
  PFN_cuMemcpyBatchAsync_v12080 copy_batch = nullptr;  // null with a driver older than 12.8
};

// Throws Error(kUnavailable) if the driver is older than 12.0.
const CudaDriver& cuda_driver();

}  // namespace mk

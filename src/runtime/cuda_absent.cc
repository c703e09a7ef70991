// SPDX-License-Identifier: MIT
// runtime/cuda_absent.cc — compiled in place of cuda_device.cc when there is no CUDA compiler.
#include <filesystem>

#include "mkernel/error.h"
#include "runtime/device.h"

namespace mk::runtime {

std::string why_no_cuda() {
  if (std::filesystem::exists("/dev/nvidiactl")) {
    return "this machine has an NVIDIA GPU but mKernel was built without CUDA; install a CUDA toolkit 12.8 or newer "
           "(nvcc on PATH or in /usr/local/cuda) and build again";
  }
  return "built without CUDA";
}

std::unique_ptr<Device> make_cuda_device(int) { throw Error(ErrorCode::kUnavailable, why_no_cuda()); }

std::unique_ptr<Device> make_cuda_device(const GpuSeat&) { throw Error(ErrorCode::kUnavailable, why_no_cuda()); }

std::vector<Gpu> usable_gpus() { return {}; }

std::string describe_cuda() { return {}; }

std::string describe_cuda_build() { return "off"; }

}  // namespace mk::runtime

// SPDX-License-Identifier: MIT
// tests/cuda/gpu_loading_test.cu — a World on a GPU loads every registered kernel, once.
#include <gtest/gtest.h>

#include "base/cuda_api.h"
#include "runtime/kernel_registry.h"
#include "tests/cuda/gpu_launch.h"

namespace mk::test {
namespace {

__global__ void registered_kernel() {}
__global__ void forgotten_kernel() {}

bool is_loaded(void (*kernel)()) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
  check_cuda(cudaGetDriverEntryPointByVersion("cuFuncIsLoaded", &found, 12040, cudaEnableDefault, &status),
             "find cuFuncIsLoaded");
  if (found == nullptr) return true;  // such a driver loads a function before it hands it out
  cudaFunction_t function = nullptr;
  check_cuda(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(kernel)), "find a kernel");
  CUfunctionLoadingState state{};
  check_cuda(reinterpret_cast<PFN_cuFuncIsLoaded_v12040>(found)(&state, function), "ask for a kernel's state");
  return state == CU_FUNCTION_LOADING_STATE_LOADED;
}

TEST(GpuLoading, AWorldLoadsEveryRegisteredKernelOnce) {
  MK_NEEDS_GPU();
  static int calls = 0;
  runtime::KernelRegistry::of_process().add([] {
    ++calls;
    load_kernel(reinterpret_cast<const void*>(registered_kernel), 0);
  });
  gpu_world({1, 2});
  EXPECT_EQ(calls, 1);
  gpu_world({2, 2});
  EXPECT_EQ(calls, 1) << "the second World of this device loads nothing";
  EXPECT_TRUE(is_loaded(registered_kernel));
  if (is_loaded(forgotten_kernel)) GTEST_SKIP() << "CUDA loads kernels unasked here: only the calls were tested";
}

}  // namespace
}  // namespace mk::test

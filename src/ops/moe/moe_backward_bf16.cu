// SPDX-License-Identifier: MIT
// ops/moe/moe_backward_bf16.cu — the kernel of moe_layer_backward for bf16.
#include "ops/moe/moe_backward_kernel.cuh"
#include "runtime/kernel_registry.h"

namespace mk::moe {

template struct BackwardLauncher<DType::kBf16>;

namespace {

const runtime::KernelLoader kLoad(BackwardLauncher<DType::kBf16>::load);

}  // namespace
}  // namespace mk::moe

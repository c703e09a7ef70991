// SPDX-License-Identifier: MIT
// ops/moe/moe_backward_fp16.cu — the kernel of moe_layer_backward for fp16.
#include "ops/moe/moe_backward_kernel.cuh"
#include "runtime/kernel_registry.h"

namespace mk::moe {

template struct BackwardLauncher<DType::kFp16>;

namespace {

const runtime::KernelLoader kLoad(BackwardLauncher<DType::kFp16>::load);

}  // namespace
}  // namespace mk::moe

// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_bf16.cu — the kernels of moe_layer for bf16.
#include "ops/moe/moe_layer_kernel.cuh"
#include "runtime/kernel_registry.h"

namespace mk::moe {

template struct LayerLauncher<DType::kBf16>;

namespace {

const runtime::KernelLoader kLoad(LayerLauncher<DType::kBf16>::load);

}  // namespace
}  // namespace mk::moe

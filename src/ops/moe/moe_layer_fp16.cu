// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_fp16.cu — the kernels of moe_layer for fp16.
#include "ops/moe/moe_layer_kernel.cuh"
#include "runtime/kernel_registry.h"

namespace mk::moe {

template struct LayerLauncher<DType::kFp16>;

namespace {

const runtime::KernelLoader kLoad(LayerLauncher<DType::kFp16>::load);

}  // namespace
}  // namespace mk::moe

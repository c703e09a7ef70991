// SPDX-License-Identifier: MIT
// ops/moe/moe_bf16.cu — the kernels of moe_dispatch_gemm for bf16.
#include "ops/moe/moe_kernel.cuh"
#include "runtime/kernel_registry.h"

namespace mk::moe {

template struct MoeLauncher<DType::kBf16, BOrder::kKN>;
template struct MoeLauncher<DType::kBf16, BOrder::kNK>;

namespace {

const runtime::KernelLoader kLoadKn(MoeLauncher<DType::kBf16, BOrder::kKN>::load);
const runtime::KernelLoader kLoadNk(MoeLauncher<DType::kBf16, BOrder::kNK>::load);

}  // namespace
}  // namespace mk::moe

// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_bf16.cu — the kernels of ring_attention for bf16.
#include "ops/attention/ring_attention_kernel.cuh"
#include "runtime/kernel_registry.h"

namespace mk::attention {

template struct RingAttentionLauncher<DType::kBf16>;

namespace {

const runtime::KernelLoader kLoad(RingAttentionLauncher<DType::kBf16>::load);

}  // namespace
}  // namespace mk::attention

// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward_bf16.cu — the kernels of ring_attention_backward for bf16.
#include "ops/attention/ring_attention_backward_kernel.cuh"
#include "runtime/kernel_registry.h"

namespace mk::attention {

template struct RingAttentionBackwardLauncher<DType::kBf16>;

namespace {

const runtime::KernelLoader kLoad(RingAttentionBackwardLauncher<DType::kBf16>::load);

}  // namespace
}  // namespace mk::attention

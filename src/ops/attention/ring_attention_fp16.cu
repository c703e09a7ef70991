// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_fp16.cu — the kernels of ring_attention for fp16.
#include "ops/attention/ring_attention_kernel.cuh"
#include "runtime/kernel_registry.h"

namespace mk::attention {

template struct RingAttentionLauncher<DType::kFp16>;

namespace {

const runtime::KernelLoader kLoad(RingAttentionLauncher<DType::kFp16>::load);

}  // namespace
}  // namespace mk::attention

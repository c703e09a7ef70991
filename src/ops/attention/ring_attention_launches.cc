// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_launches.cc — the launches of ring_attention and of its gradients on a GPU.
#include "ops/attention/ring_attention_backward_sm90.h"
#include "ops/attention/ring_attention_sm90.h"

namespace mk::attention {

void launch_gpu(const Layout& layout, const RankView& view, const runtime::Plan& plan, const Operands& operands,
                DType dtype, Stream stream) {
  if (dtype == DType::kBf16) {
    RingAttentionLauncher<DType::kBf16>::launch(layout, view, plan, operands, stream);
  } else {
    RingAttentionLauncher<DType::kFp16>::launch(layout, view, plan, operands, stream);
  }
}

void launch_backward_gpu(const BackwardLayout& layout, const RankView& view, const runtime::Plan& plan,
                         const BackwardOperands& operands, DType dtype, Stream stream) {
  if (dtype == DType::kBf16) {
    RingAttentionBackwardLauncher<DType::kBf16>::launch(layout, view, plan, operands, stream);
  } else {
    RingAttentionBackwardLauncher<DType::kFp16>::launch(layout, view, plan, operands, stream);
  }
}

}  // namespace mk::attention

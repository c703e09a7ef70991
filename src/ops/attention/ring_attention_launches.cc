// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_launches.cc — the launch of ring_attention on a GPU.
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

}  // namespace mk::attention

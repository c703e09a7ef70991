// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward_sm90.h — from a launch of ring_attention_backward to its kernel, which is
// compiled apart.
#pragma once

#include "core/rank_view.h"
#include "mkernel/types.h"
#include "ops/attention/ring_attention_backward_layout.h"
#include "ops/attention/ring_attention_backward_operands.h"
#include "runtime/plan.h"
#include "target/sm90/attention_backward_config.h"

namespace mk::attention {

constexpr int gpu_block_rows(int64_t dim) {
  return dim == 64    ? sm90::AttentionBackwardConfig<64>::kQueries
         : dim == 128 ? sm90::AttentionBackwardConfig<128>::kQueries
                      : sm90::AttentionBackwardConfig<256>::kQueries;
}
constexpr int gpu_key_rows(int64_t dim) {
  return dim == 64    ? sm90::AttentionBackwardConfig<64>::kKeys
         : dim == 128 ? sm90::AttentionBackwardConfig<128>::kKeys
                      : sm90::AttentionBackwardConfig<256>::kKeys;
}

template <DType kDType>
struct RingAttentionBackwardLauncher {
  static void load();  // before the first launch on a device
  static void launch(const BackwardLayout& layout, const RankView& view, const runtime::Plan& plan,
                     const BackwardOperands& operands, Stream stream);
};

// Defined in ring_attention_launches.cc or, without a CUDA compiler, in ring_attention_absent.cc.
void launch_backward_gpu(const BackwardLayout& layout, const RankView& view, const runtime::Plan& plan,
                         const BackwardOperands& operands, DType dtype, Stream stream);

}  // namespace mk::attention

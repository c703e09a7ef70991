// SPDX-License-Identifier: MIT
// ops/moe/moe_absent.cc — compiled in place of the kernels of MoE when there is no CUDA compiler.
#include "mkernel/error.h"
#include "ops/moe/moe_backward_sm90.h"
#include "ops/moe/moe_layer_sm90.h"
#include "ops/moe/moe_sm90.h"
#include "runtime/device.h"

namespace mk::moe {

void launch_gpu(const Layout&, const RankView&, const runtime::Plan&, const MoeDispatchGemmArgs&, Stream) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

void launch_gpu(const LayerLayout&, const RankView&, const runtime::Plan&, const MoeLayerArgs&, Stream) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

void launch_gpu(const BackwardLayout&, const RankView&, const runtime::Plan&, const MoeLayerBackwardArgs&, Stream) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

}  // namespace mk::moe

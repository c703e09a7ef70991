// SPDX-License-Identifier: MIT
// ops/moe/moe_launches.cc — the launches of moe_dispatch_gemm and moe_layer on a GPU.
#include "mkernel/error.h"
#include "ops/gemm/gemm_sm90.h"
#include "ops/moe/moe_backward_sm90.h"
#include "ops/moe/moe_layer_sm90.h"
#include "ops/moe/moe_sm90.h"

namespace mk::moe {

void launch_gpu(const Layout& layout, const RankView& view, const runtime::Plan& plan, const MoeDispatchGemmArgs& args,
                Stream stream) {
  gemm::with_types(args.w.dtype, args.w_order, [&]<DType kDType, BOrder kOrder>() {
    MoeLauncher<kDType, kOrder>::launch(layout, view, plan, args, stream);
  });
}

void launch_gpu(const LayerLayout& layout, const RankView& view, const runtime::Plan& plan, const MoeLayerArgs& args,
                Stream stream) {
  gemm::with_types(args.w2.dtype, BOrder::kNK,
                   [&]<DType kDType, BOrder>() { LayerLauncher<kDType>::launch(layout, view, plan, args, stream); });
}

void launch_gpu(const BackwardLayout&, const RankView&, const runtime::Plan&, const MoeLayerBackwardArgs&, Stream) {
  throw Error(ErrorCode::kUnavailable, "moe_layer_backward has no kernel for GPUs yet");
}

}  // namespace mk::moe

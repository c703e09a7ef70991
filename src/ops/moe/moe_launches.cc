// SPDX-License-Identifier: MIT
// ops/moe/moe_launches.cc — the launches of moe_dispatch_gemm, moe_layer and its backward pass on a GPU.
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

void launch_gpu(const BackwardLayout& layout, const RankView& view, const runtime::Plan& plan,
                const MoeLayerBackwardArgs& args, Stream stream) {
  gemm::with_types(args.w2.dtype, BOrder::kKN,
                   [&]<DType kDType, BOrder>() { BackwardLauncher<kDType>::launch(layout, view, plan, args, stream); });
}

}  // namespace mk::moe

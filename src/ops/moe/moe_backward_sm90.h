// SPDX-License-Identifier: MIT
// ops/moe/moe_backward_sm90.h — from a launch of moe_layer_backward to its kernel, which is compiled apart.
#pragma once

#include "core/rank_view.h"
#include "mkernel/moe_layer_backward.h"
#include "ops/moe/moe_backward_layout.h"
#include "runtime/plan.h"

namespace mk::moe {

template <DType kDType>
struct BackwardLauncher {
  static void load();  // before the first launch on a device
  static void launch(const BackwardLayout& layout, const RankView& view, const runtime::Plan& plan,
                     const MoeLayerBackwardArgs& args, Stream stream);
};

// Defined in moe_launches.cc or, without a CUDA compiler, in moe_absent.cc.
void launch_gpu(const BackwardLayout& layout, const RankView& view, const runtime::Plan& plan,
                const MoeLayerBackwardArgs& args, Stream stream);

}  // namespace mk::moe

// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_sm90.h — from a launch of moe_layer to its kernel, which is compiled apart.
#pragma once

#include "core/rank_view.h"
#include "mkernel/moe_layer.h"
#include "ops/moe/moe_layer_layout.h"
#include "runtime/plan.h"

namespace mk::moe {

template <DType kDType>
struct LayerLauncher {
  static void load();  // before the first launch on a device
  static void launch(const LayerLayout& layout, const RankView& view, const runtime::Plan& plan,
                     const MoeLayerArgs& args, Stream stream);
};

// Defined in moe_launches.cc or, without a CUDA compiler, in moe_absent.cc.
void launch_gpu(const LayerLayout& layout, const RankView& view, const runtime::Plan& plan, const MoeLayerArgs& args,
                Stream stream);

}  // namespace mk::moe

// SPDX-License-Identifier: MIT
// ops/moe/moe_sm90.h — from a launch of moe_dispatch_gemm to its kernel, which is compiled apart.
#pragma once

#include <tuple>

#include "core/rank_view.h"
#include "ops/moe/moe_layout.h"
#include "ops/moe/moe_operands.h"
#include "runtime/plan.h"
#include "target/sm90/gemm_config.h"

namespace mk::moe {

// Both have room for a worker inside.  Where experts have few rows their weights are most of what is read, and a wide
// tile reads the rows less often.
using MoeConfigs = std::tuple<sm90::GemmConfig<128, 256, 2, 1, 1>, sm90::GemmConfig<64, 256, 1, 1, 1, 4096>>;

template <DType kDType, BOrder kOrder>
struct MoeLauncher {
  static void load();  // before the first launch on a device
  static void launch(const Layout& layout, const RankView& view, const runtime::Plan& plan,
                     const MoeDispatchGemmArgs& args, Stream stream);
};

// Defined in moe_launches.cc or, without a CUDA compiler, in moe_absent.cc.
void launch_gpu(const Layout& layout, const RankView& view, const runtime::Plan& plan, const MoeDispatchGemmArgs& args,
                Stream stream);

}  // namespace mk::moe

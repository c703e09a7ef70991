// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_sm90.h — from a launch of ring_attention to its kernel, which is compiled apart.
#pragma once

#include "core/rank_view.h"
#include "mkernel/types.h"
#include "ops/attention/ring_attention_layout.h"
#include "ops/attention/ring_attention_operands.h"
#include "runtime/plan.h"
#include "target/sm90/attention_config.h"

namespace mk::attention {

// The tile of a head dimension: as many keys at a time as registers have room for, and no fewer if there is a mask
// (docs/performance.md).
template <int kDim>
using TileOf = sm90::AttentionConfig<kDim, kDim == 64    ? 192
                                           : kDim == 128 ? 160
                                                         : 64>;

constexpr int kGpuTileRows = 128;
constexpr bool has_gpu_tile(int64_t dim) { return dim == 64 || dim == 128 || dim == 256; }

template <DType kDType>
struct RingAttentionLauncher {
  static void load();  // before the first launch on a device
  static void launch(const Layout& layout, const RankView& view, const runtime::Plan& plan, const Operands& operands,
                     Stream stream);
};

// Defined in ring_attention_launches.cc or, without a CUDA compiler, in ring_attention_absent.cc.
void launch_gpu(const Layout& layout, const RankView& view, const runtime::Plan& plan, const Operands& operands,
                DType dtype, Stream stream);

}  // namespace mk::attention

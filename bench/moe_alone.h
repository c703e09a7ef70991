// SPDX-License-Identifier: MIT
// bench/moe_alone.h — the grouped GEMM of moe_dispatch_gemm by itself.
#pragma once

#include "mkernel/moe.h"
#include "runtime/world_state.h"

namespace mk::bench {

// Multiplies the rows that the last launch of moe_dispatch_gemm with this shape and split brought to rank 0, once more.
// bf16, weights as [N,K].
void launch_alone(runtime::WorldState& world, const MoeShape& shape, const Split& split,
                  const MoeDispatchGemmArgs& args);

}  // namespace mk::bench

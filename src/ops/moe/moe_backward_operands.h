// SPDX-License-Identifier: MIT
// ops/moe/moe_backward_operands.h — what one rank brings to a launch of the backward pass.
#pragma once

#include "mkernel/moe_layer_backward.h"
#include "ops/moe/moe_layer_operands.h"

namespace mk::moe {

struct BackwardOperands {
  LayerOperands layer;          // its `out` is dx
  const void* gates = nullptr;  // [row][2][inter]
  float* scores = nullptr;      // dtopk_weight, or null
  void* dw13 = nullptr;
  void* dw2 = nullptr;
};

inline BackwardOperands operands_of(const MoeLayerBackwardArgs& args) {
  BackwardOperands operands{.layer = {.routing = {}, .w13 = args.w13.data, .w2 = args.w2.data, .out = args.dx.data},
                            .gates = args.kept.data,
                            .scores = args.dtopk_weight,
                            .dw13 = args.dw13.data,
                            .dw2 = args.dw2.data};
  operands.layer.routing.tokens = args.x.rows;
  operands.layer.routing.ids = args.topk_idx.type;
  operands.layer.routing.has_weights = args.topk_weight != nullptr;
  return operands;
}

}  // namespace mk::moe

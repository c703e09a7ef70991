// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_operands.h — what one rank brings to a launch of a layer of experts.
#pragma once

#include "mkernel/moe_layer.h"
#include "ops/moe/moe_operands.h"

namespace mk::moe {

struct LayerOperands {
  Operands routing;  // tokens, ids, weights, load, and what is told of drops
  const void* w13 = nullptr;
  const void* w2 = nullptr;
  void* out = nullptr;
  void* kept = nullptr;  // [row][2][inter], or null
};

inline LayerOperands operands_of(const MoeLayerArgs& args) {
  LayerOperands operands{
      .routing = {}, .w13 = args.w13.data, .w2 = args.w2.data, .out = args.out.data, .kept = args.kept.data};
  operands.routing.tokens = args.x.rows;
  operands.routing.ids = args.topk_idx.type;
  operands.routing.has_weights = args.topk_weight != nullptr;
  operands.routing.load = args.load;
  operands.routing.routed_idx = args.routed_idx;
  operands.routing.dropped = args.dropped;
  return operands;
}

}  // namespace mk::moe

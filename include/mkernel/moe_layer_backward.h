// SPDX-License-Identifier: MIT
// mkernel/moe_layer_backward.h — the gradients of moe_layer in one launch.
//
// For a row of an expert, of token t and one of its slots, with gate and up as moe_layer kept them and s =
// sigmoid(gate):
//
//   da = dout[t] · w2                              dgate = weight · da ∘ up ∘ s ∘ (1 + gate ∘ (1 - s))
//   dtopk_weight = da · (silu(gate) ∘ up)          dup   = weight · da ∘ silu(gate)
//   dx [t]    = Σ over slots of [dgate, dup] · w13
//   dw13      = Σ over rows of [dgate, dup]ᵀ · x          of each expert; zero for one without rows
//   dw2       = Σ over rows of doutᵀ · (weight · silu(gate) ∘ up)
//
// With an activation_clamp L, gate and up are bounded as in moe_layer; dgate is 0 where the gate that was kept is above
// L, and dup where the up is above L or below -L.
//
// From the forward pass it needs x, the routing, and gate and up (`kept`).  x and dout travel to the experts; dx comes
// back as results do in moe_layer.  Sums are made in fp32; dgate, dup, weight · silu(gate) ∘ up, each row of dx and
// each result are rounded to the element type.  All orders are fixed, so two runs give the same bits.
//
// Sizes are limited as those of moe_layer.  If the forward pass dropped pairs, this one drops the same: `overflow` and
// max_rows must be those of the forward pass; topk_idx may be the same or the routed_idx that came of it.
#pragma once

#include <cstdint>
#include <span>

#include "mkernel/export.h"
#include "mkernel/moe_layer.h"

namespace mk {

struct MoeLayerBackwardArgs {
  Tensor x;                            // [tokens, hidden]; this and the next two as in the forward pass
  MoeIds topk_idx;                     // [tokens, topk]
  const float* topk_weight = nullptr;  // [tokens, topk]; null: ones
  Tensor w13;                          // [local experts · 2 · inter, hidden]
  Tensor w2;                           // [local experts · hidden, inter]
  Tensor kept;                         // [max_rows, 2 · inter]: MoeLayerArgs::kept
  Tensor dout;                         // [tokens, hidden]
  Tensor dx;                           // [tokens, hidden]
  float* dtopk_weight = nullptr;       // [tokens, topk] or null; 0 where a slot names no expert or was dropped
  Tensor dw13;                         // [local experts · 2 · inter, hidden]
  Tensor dw2;                          // [local experts · hidden, inter]
  Stream stream = nullptr;
};

// Launches on every rank of the World that lives in this process; args[i] belongs to the i-th of them.  Returns at
// once.  Refusals are those of moe_layer.
MK_API void moe_layer_backward(World& world, const MoeLayerShape& shape, std::span<const MoeLayerBackwardArgs> args,
                               const MoeLayerOptions& options = {});

// Bytes of symmetric memory a rank needs.
MK_API int64_t moe_layer_backward_workspace_bytes(const World& world, const MoeLayerShape& shape, DType dtype);

}  // namespace mk

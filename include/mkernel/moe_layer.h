// SPDX-License-Identifier: MIT
// mkernel/moe_layer.h — a whole layer of experts in one launch: tokens travel to their experts and results come back.
//
//   expert(x) = w2 · (silu(gate) ∘ up)   gate, up = the first and the last `inter` rows of w13, times x
//   out [tokens, hidden] = Σ over slots that name an expert of topk_weight · expert(x)
//
// Experts, ids and the number of tokens are as in mkernel/moe.h.  Activations, and each expert's weighted result, are
// rounded to the element type.  Results are summed in fp32, in the order of slots, inside a node; a sum that crosses to
// another node is rounded once more, and sums of nodes are added in a fixed order, the token's own node first.  So two
// runs give the same bits.
//
// Shared experts: each rank has `shared` more, behind its others in w13 and w2.  Every token of the rank goes to all of
// them, with weight 1, and their results are added after those of its slots in its node.  Sums of experts being what
// they are, n of them are one with n · inter.  Their rows count in max_rows, and their gradients come with the others.
//
// With an activation_clamp L, min(gate, L) takes the place of gate, and min(max(up, -L), L) that of up.  `kept` has
// both as they were before.
//
// On a CPU any hidden, inter ≥ 1 and bf16, fp16 or fp32.  On a GPU bf16 or fp16, hidden and inter multiples of 8, at
// most 1024 experts, shared ones included, topk + shared + nodes at most 97.
#pragma once

#include <cstdint>
#include <span>

#include "mkernel/export.h"
#include "mkernel/moe.h"
#include "mkernel/options.h"
#include "mkernel/types.h"
#include "mkernel/world.h"

namespace mk {

// What does not change from launch to launch; the same on all ranks.
struct MoeLayerShape {
  int64_t hidden = 0;
  int64_t inter = 0;
  int experts = 0;                              // of the world: a multiple of its size
  int topk = 0;                                 // at most `experts`, and at most 64
  int64_t max_tokens = 0;                       // that a rank may bring
  int64_t max_rows = 0;                         // that a rank may get
  float activation_clamp = 0;                   // 0 or infinity: none
  int shared = 0;                               // experts of each rank that all its tokens go to; with topk at most 64
  MoeOverflow overflow = MoeOverflow::kRefuse;  // kDrop: max_rows is at least max_tokens · shared
};

struct MoeLayerArgs {
  Tensor x;                            // [tokens, hidden]; tokens is at most max_tokens
  MoeIds topk_idx;                     // [tokens, topk]
  const float* topk_weight = nullptr;  // [tokens, topk]; null: ones
  Tensor w13;                          // [local experts · 2 · inter, hidden]; shared ones are the last local experts
  Tensor w2;                           // [local experts · hidden, inter]
  Tensor out;                          // [tokens, hidden]
  Tensor kept = {};                    // [max_rows, 2 · inter] or null: gate and up of each row, for the backward pass
  int32_t* load = nullptr;             // [local experts] or null: each launch adds the rows that each expert gets
  int32_t* routed_idx = nullptr;       // [tokens, topk] or null: topk_idx with -1 where a pair was dropped
  int32_t* dropped = nullptr;          // [topk] or null: pairs of each slot that this rank's tokens lost
  Stream stream = nullptr;
};

struct MoeLayerOptions {
  Split split = {};  // empty: chosen; dispatch (on CPUs only), send (between nodes only) and compute are its roles
};

// Launches on every rank of the World that lives in this process; args[i] belongs to the i-th of them.  Returns at
// once.  Refusals are those of moe_dispatch_gemm: no rank writes `out` then, and the World goes on.
MK_API void moe_layer(World& world, const MoeLayerShape& shape, std::span<const MoeLayerArgs> args,
                      const MoeLayerOptions& options = {});

// Bytes of symmetric memory a rank needs.
MK_API int64_t moe_layer_workspace_bytes(const World& world, const MoeLayerShape& shape, DType dtype);

}  // namespace mk

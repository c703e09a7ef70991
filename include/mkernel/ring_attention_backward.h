// SPDX-License-Identifier: MIT
// mkernel/ring_attention_backward.h — the gradients of ring_attention in one launch.
//
// With scores s = scale · q kᵀ, weights p = exp(s - lse) of the keys that the mask leaves, and delta = Σ o ∘ do of each
// query:
//
//   dv = Σ over queries of pᵀ do          ds = p ∘ (do vᵀ - delta)
//   dk = scale · Σ over queries of dsᵀ q  dq = scale · Σ over keys of ds k
//   dsink = -Σ over queries of exp(sink - lse) · delta
//
// From the forward pass it needs q, k, v, o and lse, with the same options.  Keys and values travel to the ranks whose
// queries see them, as in ring_attention, and their gradients come home in fp32: summed inside a node before they cross
// to another.  All sums are made in fp32 and in a fixed order, so two runs give the same bits; p and ds are rounded to
// the element type before they are multiplied, results once at the end.
//
// Sizes and strides are limited as those of ring_attention.
#pragma once

#include <cstdint>
#include <span>

#include "mkernel/export.h"
#include "mkernel/ring_attention.h"

namespace mk {

struct RingAttentionBackwardArgs {
  HeadTensor q;                 // [batch, rows, query heads, dim]; this and the next two as in the forward pass
  HeadTensor k;                 // [batch, rows, key heads, dim]
  HeadTensor v;                 // as k
  HeadTensor o;                 // as q: what the forward pass wrote
  HeadTensor dout;              // as q: the gradients of o
  const float* lse = nullptr;   // [batch, query heads, rows]: what the forward pass wrote
  const float* sink = nullptr;  // [query heads] or null, as in the forward pass
  HeadTensor dq;                // as q, written
  HeadTensor dk;                // as k, written
  HeadTensor dv;                // as k, written
  float* dsink = nullptr;       // [query heads] or null, written: the sum over this rank's queries.  The gradient of a
                                // sink that all ranks share is the sum over the ranks, which the caller makes, as for
                                // other shared parameters.
  Stream stream = nullptr;
};

// Launches on every rank of the World that lives in this process; args[i] belongs to the i-th of them.  Returns at
// once.
MK_API void ring_attention_backward(World& world, std::span<const RingAttentionBackwardArgs> args,
                                    const RingAttentionOptions& options = {});

// Bytes of symmetric memory a rank needs: they grow with the rows of a rank, not with the number of ranks.
MK_API int64_t ring_attention_backward_workspace_bytes(const World& world, const RingAttentionShape& shape,
                                                       const RingAttentionOptions& options = {});

}  // namespace mk

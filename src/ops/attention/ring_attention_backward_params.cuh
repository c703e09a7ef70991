// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward_params.cuh — what a launch of attention's gradients is given, and what its jobs
// share.
#pragma once

#include <cuda.h>

#include "core/rank_view.h"
#include "ops/attention/ring_attention_backward_layout.h"
#include "ops/attention/ring_attention_params.cuh"
#include "target/sm90/attention_backward_maths.cuh"
#include "target/sm90/attention_backward_shared.cuh"

namespace mk::attention {

template <class Element, class Pace>
struct BackwardParams {
  RankView view;
  BackwardLayout layout;
  CUtensorMap q;  // (column, row of a piece, head, part); a part is a piece of a batch
  CUtensorMap g;  // of dout, likewise
  KeyMaps own;
  KeyMaps rail;
  KeyMaps local;
  const Element* o = nullptr;
  const Element* dout = nullptr;
  const float* lse = nullptr;
  const float* sink = nullptr;
  Element* dq = nullptr;
  float* dsink = nullptr;
  sm90::KeyGradients<Element> gradients;  // the result; a batch is a part
  sm90::AttentionMask mask;
  float scale = 1;        // of the softmax
  float score_scale = 1;  // times log2 e
  [[no_unique_address]] typename Pace::Setting pace;

  template <class T>
  __device__ T* resolve(const Place& place) const {
    return reinterpret_cast<T*>(view.windows.resolve(view.world, place));
  }
  // Of a block's queries, in the caller's tensors.
  __device__ int64_t row_elements() const { return int64_t{layout.heads} * layout.dim; }
  __device__ int64_t query_offset(const QueryBlock& block) const {
    return (block.batch * layout.rows + block.rows.first) * row_elements() + block.head * layout.dim;
  }
};

}  // namespace mk::attention

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
  CUtensorMap q;
  CUtensorMap g;  // of dout
  KeyMaps own;
  KeyMaps rail;
  KeyMaps local;
  HeadView o;
  HeadView dout;
  const float* lse = nullptr;
  const float* sink = nullptr;
  HeadView dq;
  float* dsink = nullptr;
  sm90::KeyGradients<Element> gradients;  // the result
  sm90::AttentionMask mask;
  float scale = 1;        // of the softmax
  float score_scale = 1;  // times log2 e
  [[no_unique_address]] typename Pace::Setting pace;

  template <class T>
  __device__ T* resolve(const Place& place) const {
    return reinterpret_cast<T*>(view.windows.resolve(view.world, place));
  }
  // The first of a block's queries in a caller's tensor.
  __device__ static Element* first_of(const HeadView& tensor, const QueryBlock& block) {
    return tensor.at<Element>(block.batch, block.rows.first, block.head);
  }
};

}  // namespace mk::attention

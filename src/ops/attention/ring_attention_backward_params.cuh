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
#include "target/sm90/tile_queue.cuh"

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

// What the walk job passes to the load job: a tile whose keys are here; or a mark, which has an id only.
struct WalkedKeys {
  static constexpr int kMostPieces = 2;

  sm90::KeyVisit visit;
  sm90::QuerySegment segments[kMostPieces];
  const int* turns = nullptr;  // of block 0: how many turns of it come before those of the tile's piece
  int to_all = 0;              // from there to how many there are
  int index = 0;               // the tile's turn in its piece

  __device__ bool is_mark() const { return visit.tile.k == nullptr; }
};
constexpr int kWalkedKeys = 2;  // the tile that is loaded, and the next

// What is added lies in what alignment leaves: shared memory is full.
template <class Config, class Element>
struct BackwardBlockShared : sm90::AttentionBackwardShared<Config, Element> {
  sm90::TileQueue<WalkedKeys, kWalkedKeys> walked;
  uint64_t ahead;  // the load job asks for the next tile
};

}  // namespace mk::attention

// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_params.cuh — what a launch of attention over many ranks is given, and what its jobs
// share.
#pragma once

#include <cuda.h>

#include "core/rank_view.h"
#include "ops/attention/ring_attention_layout.h"
#include "target/sm90/attention_output.cuh"
#include "target/sm90/attention_shared.cuh"
#include "target/sm90/attention_visit.h"
#include "target/sm90/tile_queue.cuh"

namespace mk::attention {

// Keys and values as TMA sees them (ring_attention_maps.cuh).
struct KeyMaps {
  CUtensorMap k;
  CUtensorMap v;
};

template <class Element, class Pace>
struct Params {
  RankView view;
  Layout layout;
  CUtensorMap q;
  KeyMaps own;
  KeyMaps rail;
  KeyMaps local;
  sm90::AttentionOutput<Element> output;
  sm90::AttentionMask mask;
  float scale;
  [[no_unique_address]] typename Pace::Setting pace;
};

// What the walk job passes to the load job: a visit whose keys are here; or, where `told` is not null, a signal to add
// to when all that was passed before has been read.
struct WalkedVisit {
  static constexpr int kMostPieces = 2;

  sm90::AttentionVisit visit;
  int num_segments = 0;
  sm90::KeySegment segments[kMostPieces];
  uint64_t* told = nullptr;
  uint64_t amount = 0;
};

// The visit that is loaded, and the next: tiles that are claimed early cannot go to another block.
using WalkedVisits = sm90::TileQueue<WalkedVisit, 2>;
using WalkedGiver = sm90::TileGiver<WalkedVisit, 2>;
using WalkedTaker = sm90::TileTaker<WalkedVisit, 2>;

template <class Config, class Element>
struct BlockShared {
  sm90::AttentionShared<Config, Element> attention;
  WalkedVisits walked;
};

}  // namespace mk::attention

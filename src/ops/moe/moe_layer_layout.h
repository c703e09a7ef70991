// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_layout.h — what a layer of experts has besides the dispatch of tokens: activations, results on
// their way back, and sums of a node.
//
// Results lie at the expert's rank, row by row.  Whoever delivered a row keeps where, and reads its result from there
// to sum it: a rank those of its own tokens, and those of its rail peers' tokens in this node.  Of the latter the sum
// crosses back.
#pragma once

#include <functional>

#include "base/activation_clamp.h"
#include "ops/moe/moe_layout.h"

namespace mk::moe {

constexpr uint32_t kActivationsWindow = kFirstLayerWindow + 0;  // [row] what the second GEMM multiplies
constexpr uint32_t kResultsWindow = kFirstLayerWindow + 1;      // [row] what the second GEMM makes
constexpr uint32_t kPlacesWindow = kFirstLayerWindow + 2;       // [node][pair] words: rows that a pair became
constexpr uint32_t kRecordsWindow = kFirstLayerWindow + 3;      // [other node][] Records of tokens that cross
constexpr uint32_t kRecordsInWindow = kFirstLayerWindow + 4;    // [other node][] those that came
constexpr uint32_t kSumsOutWindow = kFirstLayerWindow + 5;      // [other node][] sums for tokens that came
constexpr uint32_t kSumsInWindow = kFirstLayerWindow + 6;       // [other node][] sums of tokens that crossed
constexpr uint32_t kReturnPlanWindow = kFirstLayerWindow + 7;   // [batch][4] words, see due_back_at

constexpr int kMostTileRows = 128;
constexpr int kMostGpuAddends = 96;  // of a token: its slots, and sums of other nodes

struct LayerLayout : Layout {
  static constexpr bool kHasScores = false;  // false: the protocol compiles no code for scores

  int64_t inter = 1;
  int64_t act_cols = 1;     // elements of an activation: inter, or 2 · inter in the backward pass
  bool has_scores = false;  // kHasScores of the layout that this is part of
  int act_tile_n = 1;       // columns of activations that a tile of the first GEMM makes
  int group_tiles = 1;      // of the first GEMM, at least, in a group of experts; see for_each_tile
  ActivationClamp clamp = {};

  MK_HD constexpr int act_blocks() const { return static_cast<int>(ceil_div<int64_t>(inter, act_tile_n)); }
  MK_HD constexpr uint64_t act_bytes() const { return static_cast<uint64_t>(act_cols) * element_bytes; }
  MK_HD constexpr Place activation_at(int rank, int64_t row) const {
    return {kActivationsWindow, rank, static_cast<uint64_t>(lead_rows + row) * act_bytes()};
  }

  MK_HD constexpr Place result_at(int rank, int64_t row) const {
    return {kResultsWindow, rank, static_cast<uint64_t>(row) * row_bytes()};
  }
  // Of a pair of the rail peer in `node`, or of an own one: its row at the rank of its expert.
  MK_HD constexpr Place place_at(int rank, int node, int64_t pair) const {
    return {kPlacesWindow, rank, static_cast<uint64_t>(node * max_pairs() + pair) * kWord};
  }

  // Pairs may have scores, one fp32 each: behind a sum that crosses lie those of all slots.
  MK_HD constexpr uint64_t scored_row_bytes() const { return round_up<uint64_t>(row_bytes(), sizeof(float)); }
  MK_HD constexpr uint64_t scores_bytes() const { return round_up<uint64_t>(topk * sizeof(float), 16); }
  MK_HD constexpr uint64_t sum_bytes() const { return has_scores ? scored_row_bytes() + scores_bytes() : row_bytes(); }
  MK_HD constexpr Place score_in(Place sum, int slot = 0) const {
    sum.offset += scored_row_bytes() + slot * sizeof(float);
    return sum;
  }

  // A Record: the token, and its ids; -1 where a slot names no expert.
  MK_HD constexpr uint64_t record_bytes() const { return round_up<uint64_t>((1 + topk) * kWord, 16); }
  MK_HD constexpr Place record_at(int rank, int node, int64_t index) const {
    return crossed_place(kRecordsWindow, rank, node, index, record_bytes());
  }
  MK_HD constexpr Place record_in_at(int rank, int node, int64_t index, int word = 0) const {
    Place at = crossed_place(kRecordsInWindow, rank, node, index, record_bytes());
    at.offset += word * kWord;
    return at;
  }
  MK_HD constexpr Place sum_out_at(int rank, int node, int64_t index) const {
    return crossed_place(kSumsOutWindow, rank, node, index, sum_bytes());
  }
  MK_HD constexpr Place sum_in_at(int rank, int node, int64_t index) const {
    return crossed_place(kSumsInWindow, rank, node, index, sum_bytes());
  }
  // Rows that this rank ever delivered of a batch, low word first; then those of this launch, and an unused word.
  static constexpr int kDueBackWords = 4;
  MK_HD constexpr Place due_back_at(int rank, int batch, int word = 0) const {
    return {kReturnPlanWindow, rank, (static_cast<uint64_t>(batch) * kDueBackWords + word) * kWord};
  }
  MK_HD constexpr uint64_t due_back_bytes() const {
    return static_cast<uint64_t>(num_batches()) * kDueBackWords * kWord;
  }

  // Signals.  activated: rows of a block, over all launches, times the tiles across them.  returned: likewise rows of a
  // batch whose results are made, at the rank that delivered it.  records_landed and sums_landed, stamps: what came
  // over the rail.
  MK_HD constexpr uint32_t activated(int block) const { return Layout::num_signals() + static_cast<uint32_t>(block); }
  MK_HD constexpr uint32_t returned(int batch) const { return activated(max_blocks()) + static_cast<uint32_t>(batch); }
  MK_HD constexpr uint32_t records_landed(int node) const {
    return returned(num_batches()) + static_cast<uint32_t>(node);
  }
  MK_HD constexpr uint32_t sums_landed(int node, int chunk) const {
    return records_landed(world.nodes) + static_cast<uint32_t>(node * max_chunks() + chunk);
  }
  MK_HD constexpr uint32_t num_signals() const { return sums_landed(world.nodes, 0); }

  MK_HD constexpr int64_t most_puts() const { return Layout::most_puts() + (world.nodes - 1) * (1 + max_chunks()); }

 private:
  MK_HD constexpr Place crossed_place(uint32_t window, int rank, int node, int64_t index, uint64_t bytes) const {
    return {window, rank, static_cast<uint64_t>(slot_of(rank, node) * max_tokens + index) * bytes};
  }
};

// What a launch that is not refused makes of the words at due_back_at(rank, 0).  counts_of(r) are the Counts of rank r.
void add_due_back(const LayerLayout& layout, int rank, const std::function<const uint32_t*(int)>& counts_of,
                  uint32_t* due);

std::vector<uint64_t> window_bytes(const LayerLayout& layout);
std::string signal_name(const LayerLayout& layout, uint32_t signal);

}  // namespace mk::moe

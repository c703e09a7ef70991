// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_layout.h — what a layer of experts has besides the dispatch of tokens: activations, results on
// their way back, and sums of a node.
//
// A rank gets the results of the rows that it delivered: those of its own tokens, and those of its rail peers' tokens
// for this node.  Of the latter it sums each token's results, and the sum crosses back.
#pragma once

#include "base/activation_clamp.h"
#include "ops/moe/moe_layout.h"

namespace mk::moe {

constexpr uint32_t kActivationsWindow = kFirstOperatorWindow + 11;  // [row] what the second GEMM multiplies
constexpr uint32_t kReturnedWindow = kFirstOperatorWindow + 12;     // [node][pair] results of pairs of its rail peer
constexpr uint32_t kRecordsWindow = kFirstOperatorWindow + 13;      // [other node][] Records of tokens that cross
constexpr uint32_t kRecordsInWindow = kFirstOperatorWindow + 14;    // [other node][] those that came
constexpr uint32_t kSumsOutWindow = kFirstOperatorWindow + 15;      // [other node][] sums for tokens that came
constexpr uint32_t kSumsInWindow = kFirstOperatorWindow + 16;       // [other node][] sums of tokens that crossed
constexpr uint32_t kReturnPlanWindow = kFirstOperatorWindow + 17;   // [expert of the node][2] words, see due_back_at

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

  // A pair may have a score, one fp32: it lies behind the pair's result, and behind a sum lie those of all slots.
  MK_HD constexpr uint64_t scored_row_bytes() const { return round_up<uint64_t>(row_bytes(), sizeof(float)); }
  MK_HD constexpr uint64_t scores_bytes() const { return round_up<uint64_t>(topk * sizeof(float), 16); }
  MK_HD constexpr uint64_t returned_bytes() const { return has_scores ? scored_row_bytes() + 16 : row_bytes(); }
  MK_HD constexpr uint64_t sum_bytes() const { return has_scores ? scored_row_bytes() + scores_bytes() : row_bytes(); }
  MK_HD constexpr Place score_in(Place row, int slot = 0) const {
    row.offset += scored_row_bytes() + slot * sizeof(float);
    return row;
  }
  MK_HD constexpr Place returned_at(int rank, int node, int64_t pair) const {
    return {kReturnedWindow, rank, static_cast<uint64_t>(node * max_pairs() + pair) * returned_bytes()};
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
  // Rows that this rank ever delivered to an expert of its node; low word first.
  MK_HD constexpr Place due_back_at(int rank, int in_node) const {
    return {kReturnPlanWindow, rank, static_cast<uint64_t>(in_node) * 2 * kWord};
  }

  // Signals.  activated: rows of a block, over all launches, times the tiles across them.  returned: likewise results
  // of an expert of the node that came back here.  records_landed and sums_landed, stamps: what came over the rail.
  MK_HD constexpr uint32_t activated(int block) const { return Layout::num_signals() + static_cast<uint32_t>(block); }
  MK_HD constexpr uint32_t returned(int in_node) const {
    return activated(max_blocks()) + static_cast<uint32_t>(in_node);
  }
  MK_HD constexpr uint32_t records_landed(int node) const {
    return returned(node_experts()) + static_cast<uint32_t>(node);
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

// From a rank's plan of a launch: what that launch adds to the words at due_back_at(rank, 0).
void add_due_back(const LayerLayout& layout, int rank, const uint32_t* plan, uint32_t* due);

std::vector<uint64_t> window_bytes(const LayerLayout& layout);
std::string signal_name(const LayerLayout& layout, uint32_t signal);

}  // namespace mk::moe

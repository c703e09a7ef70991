// SPDX-License-Identifier: MIT
// ops/moe/moe_backward_layout.h — what the backward pass of a layer of experts has besides the forward pass's windows.
//
// Of each token dout and x travel, in this order.  An activation is now [dgate, dup] of a row; a result is a row of dx.
// A pair's score is its dtopk_weight.
#pragma once

#include "ops/moe/moe_layer_layout.h"

namespace mk::moe {

constexpr uint32_t kScaledWindow = kFirstLayerWindow + 8;   // [row] weight · silu(gate) ∘ up
constexpr uint32_t kPartsWindow = kFirstLayerWindow + 9;    // [row][act_blocks] fp32: parts of the row's score
constexpr uint32_t kScoresWindow = kFirstLayerWindow + 10;  // [row] fp32: the score

enum : int { kDoutPart, kXPart };  // of a token

struct BackwardLayout : LayerLayout {
  static constexpr bool kHasScores = true;

  MK_HD constexpr uint64_t scaled_bytes() const { return static_cast<uint64_t>(inter) * element_bytes; }
  MK_HD constexpr Place scaled_at(int rank, int64_t row) const {
    return {kScaledWindow, rank, static_cast<uint64_t>(lead_rows + row) * scaled_bytes()};
  }
  MK_HD constexpr uint64_t parts_bytes() const { return act_blocks() * sizeof(float); }
  MK_HD constexpr Place part_at(int rank, int64_t row, int col_block = 0) const {
    return {kPartsWindow, rank, static_cast<uint64_t>(row) * parts_bytes() + col_block * sizeof(float)};
  }

  MK_HD constexpr Place score_at(int rank, int64_t row) const {
    return {kScoresWindow, rank, static_cast<uint64_t>(row) * sizeof(float)};
  }

  // Tiles of dw13 and of dw2, of one expert.
  MK_HD constexpr GridPos weight_blocks(bool is_second) const {
    const int64_t rows = is_second ? k : 2 * inter;
    const int64_t cols = is_second ? inter : k;
    return {static_cast<int>(ceil_div<int64_t>(rows, tile_m)), static_cast<int>(ceil_div<int64_t>(cols, tile_n))};
  }
};

std::vector<uint64_t> window_bytes(const BackwardLayout& layout);

}  // namespace mk::moe

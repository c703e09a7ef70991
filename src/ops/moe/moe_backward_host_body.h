// SPDX-License-Identifier: MIT
// ops/moe/moe_backward_host_body.h — the gradients of a layer of experts as plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/moe/moe_backward_operands.h"
#include "ops/moe/moe_backward_protocol.h"
#include "ops/moe/moe_layer_host_body.h"

namespace mk::moe {

// Resolve: Place → std::byte*.
template <class T, class Resolve>
class BackwardHostBody : public LayerHostBody<T, Resolve> {
 public:
  using Base = LayerHostBody<T, Resolve>;

  BackwardHostBody(const BackwardLayout& layout, int rank, const BackwardOperands& operands, Resolve resolve)
      : Base(layout, rank, operands.layer, std::move(resolve)), layout_(layout), operands_(operands) {}

  // Of one sum of dout · w2, what follows from it.
  struct Gradients {
    float gate, up, scaled, score;
  };
  Gradients gradients(float whole_gate, float whole_up, float weight, float sum) const {
    const ActivationClamp& clamp = layout_.clamp;
    const float gate = clamp.gate(whole_gate);
    const float up = clamp.up(whole_up);
    const float sigmoid = 1 / (1 + std::exp(-gate));
    const float silu = gate * sigmoid;
    const float d = weight * sum;
    return {clamp.cuts_gate(whole_gate) ? 0 : d * up * sigmoid * (1 + gate * (1 - sigmoid)),
            clamp.cuts_up(whole_up) ? 0 : d * silu, weight * silu * up, sum * silu * up};
  }

  void activate(const LayerTile& tile) {
    const Range cols = block_range(layout_.inter, layout_.act_tile_n, tile.col_block);
    const T* const w2 = static_cast<const T*>(this->own_.w2) + tile.expert * layout_.k * layout_.inter;
    for (int i = 0; i < tile.rows; ++i) {
      const int64_t row = tile.row + i;
      const T* const dout = this->elements(layout_.row_at(this->rank_, row, kDoutPart));
      const T* const kept = static_cast<const T*>(operands_.gates) + row * 2 * layout_.inter;
      T* const to = this->elements(layout_.activation_at(this->rank_, row));
      T* const scaled = this->elements(layout_.scaled_at(this->rank_, row));
      float& part = *reinterpret_cast<float*>(this->resolve_(layout_.part_at(this->rank_, row, tile.col_block)));
      const float weight = this->weight_of_row(row);
      part = 0;
      for (int64_t col = cols.first; col < cols.first + cols.count; ++col) {
        float sum = 0;
        for (int64_t k = 0; k < layout_.k; ++k) sum += to_float(dout[k]) * to_float(w2[k * layout_.inter + col]);
        const Gradients made = gradients(to_float(kept[col]), to_float(kept[layout_.inter + col]), weight, sum);
        to[col] = from_float<T>(made.gate);
        to[layout_.inter + col] = from_float<T>(made.up);
        scaled[col] = from_float<T>(made.scaled);
        part += made.score;
      }
    }
  }

  void multiply(const LayerTile& tile) {
    const Range cols = block_range(layout_.n, layout_.tile_n, tile.col_block);
    const T* const w13 = static_cast<const T*>(this->own_.w13) + tile.expert * 2 * layout_.inter * layout_.n;
    for (int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
      const T* const a = this->elements(layout_.activation_at(this->rank_, row));
      T* const to = this->elements(layout_.result_at(this->rank_, row));
      for (int64_t col = cols.first; col < cols.first + cols.count; ++col) {
        float sum = 0;
        for (int64_t k = 0; k < 2 * layout_.inter; ++k) sum += to_float(a[k]) * to_float(w13[k * layout_.n + col]);
        to[col] = from_float<T>(sum);
      }
    }
  }

  void make_scores(const LayerTile& tile) {
    for (int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
      const auto* const parts = reinterpret_cast<const float*>(this->resolve_(layout_.part_at(this->rank_, row)));
      float score = 0;
      for (int part = 0; part < layout_.act_blocks(); ++part) score += parts[part];
      *reinterpret_cast<float*>(this->resolve_(layout_.score_at(this->rank_, row))) = score;
    }
  }

  void multiply(const WeightTile& tile) {
    const int64_t height = tile.is_second ? layout_.k : 2 * layout_.inter;
    const int64_t width = tile.is_second ? layout_.inter : layout_.k;
    const Range rows = block_range(height, layout_.tile_m, tile.row_block);
    const Range cols = block_range(width, layout_.tile_n, tile.col_block);
    T* const to = static_cast<T*>(tile.is_second ? operands_.dw2 : operands_.dw13) + tile.expert * height * width;
    for (int64_t row = rows.first; row < rows.first + rows.count; ++row) {
      sums_.assign(cols.count, 0);
      for (int64_t i = tile.row; i < tile.row + tile.rows; ++i) {
        const T* const left = this->elements(tile.is_second ? layout_.row_at(this->rank_, i, kDoutPart)
                                                            : layout_.activation_at(this->rank_, i));
        const T* const right =
            this->elements(tile.is_second ? layout_.scaled_at(this->rank_, i) : layout_.row_at(this->rank_, i, kXPart));
        const float factor = to_float(left[row]);
        for (int64_t col = 0; col < cols.count; ++col) sums_[col] += factor * to_float(right[cols.first + col]);
      }
      for (int64_t col = 0; col < cols.count; ++col) to[row * width + cols.first + col] = from_float<T>(sums_[col]);
    }
  }

  void clear_sum() {
    Base::clear_sum();
    scores_.assign(layout_.topk, 0);
  }
  void take_score(int slot, const Place& from) {
    scores_[slot] = *reinterpret_cast<const float*>(this->resolve_(from));
  }
  void store_sum(const Place& to) {
    Base::store_sum(to);
    auto* const scores = reinterpret_cast<float*>(this->resolve_(layout_.score_in(to)));
    std::fill_n(scores, layout_.scores_bytes() / sizeof(float), 0.0f);
    std::copy(scores_.begin(), scores_.end(), scores);
  }
  void write_out(int64_t token) {
    Base::write_out(token);
    const int slots = layout_.named_slots();
    if (operands_.scores != nullptr) std::copy_n(scores_.data(), slots, operands_.scores + token * slots);
  }

 private:
  const BackwardLayout& layout_;
  const BackwardOperands operands_;
  std::vector<float> sums_;    // of a row of a weight's gradient
  std::vector<float> scores_;  // of the token in hand
};

}  // namespace mk::moe

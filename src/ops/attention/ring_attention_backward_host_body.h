// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward_host_body.h — a tile's gradients as plain loops.
//
// CPU threads and simulated workers use it; they differ in how a Place becomes a pointer.  Sums are fp32; weights and
// gradients of scores are rounded to the element type before they are multiplied, as on a GPU.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/half.h"
#include "ops/attention/ring_attention_backward_layout.h"
#include "ops/attention/ring_attention_backward_operands.h"

namespace mk::attention {

// Resolve: Place → std::byte*.
template <class T, class Resolve>
class BackwardHostBody {
 public:
  BackwardHostBody(const BackwardLayout& layout, int rank, const BackwardOperands& operands, Resolve resolve)
      : layout_(layout), rank_(rank), operands_(operands), resolve_(std::move(resolve)) {}

  void note(const QueryBlock& block) {
    const Notes notes = notes_of(block);
    for (int64_t row = 0; row < block.rows.count; ++row) {
      notes.lse[row] = operands_.lse[lse_offset(block) + row];
      notes.delta[row] = dot(row_of(operands_.o, block, row), row_of(operands_.dout, block, row));
    }
  }

  void begin(const KeyTile& tile, int step) {
    tile_ = tile;
    step_ = step;
    key_gradients_.assign(tile.rows.count * layout_.dim, 0);
    value_gradients_.assign(tile.rows.count * layout_.dim, 0);
  }

  void attend(const QueryBlock& block) {
    query_gradients_.assign(block.rows.count * layout_.dim, 0);
    const Notes notes = notes_of(block);
    for (int64_t row = 0; row < block.rows.count; ++row) {
      for (int64_t key = 0; key < tile_.rows.count; ++key) {
        if (layout_.mask.sees(block.position + row, tile_.position + key)) {
          add_pair(block, row, key, notes.lse[row], notes.delta[row]);
        }
      }
    }
  }

  void add_queries(const QueryBlock& block, int turn) {
    float* const sums = floats_at(layout_.query_sums_at(rank_, block.number));
    for (size_t i = 0; i < query_gradients_.size(); ++i) {
      sums[i] = turn == 0 ? query_gradients_[i] : sums[i] + query_gradients_[i];
    }
  }

  void end(const KeyTile& tile, int step) {
    for (const Half half : {Half::kKeys, Half::kValues}) {
      const std::vector<float>& sums = half == Half::kKeys ? key_gradients_ : value_gradients_;
      const HeadRow first{tile.batch, tile.kv_head, tile.rows.first};
      if (layout_.collects()) {
        std::ranges::copy(sums, floats_at(layout_.gradient_at(half, rank_, step, first)));
      } else {
        round_keys(half, first, tile.rows.count, sums.data());
      }
    }
  }

  void finish_queries(const QueryBlock& block) {
    const float* const sums = floats_at(layout_.query_sums_at(rank_, block.number));
    for (int64_t row = 0; row < block.rows.count; ++row) {
      T* const to = row_of(operands_.dq, block, row);
      for (int i = 0; i < layout_.dim; ++i) to[i] = from_float<T>(operands_.scale * sums[row * layout_.dim + i]);
    }
  }

  void add_keys(const Place& to, const Place& from, uint64_t bytes) {
    float* const sums = floats_at(to);
    const float* const more = floats_at(from);
    for (uint64_t i = 0; i < bytes / sizeof(float); ++i) sums[i] += more[i];
  }

  void finish_keys(Half half, const HeadRow& first, int64_t rows) {
    round_keys(half, first, rows, floats_at(layout_.collected_at(half, rank_, 0, first)));
  }

  // Over batches and rows in their order.
  void finish_sink(int head) {
    if (operands_.dsink == nullptr) return;
    float sum = 0;
    for (int batch = 0; batch < layout_.batch; ++batch) {
      const int first = layout_.first_block(rank_, batch, head, 0);
      const int end = first + layout_.tiles_of_head(rank_);
      for (int number = first; number < end; ++number) sum += sink_gradient(layout_.block_at(rank_, number));
    }
    operands_.dsink[head] = -sum;
  }

 private:
  // Of a block, row by row.
  struct Notes {
    float* lse;
    float* delta;
  };
  Notes notes_of(const QueryBlock& block) const {
    float* const first = floats_at(layout_.notes_at(rank_, block.number));
    return {first, first + layout_.tile_rows};
  }
  float* floats_at(const Place& place) const { return reinterpret_cast<float*>(resolve_(place)); }
  static T* row_of(const HeadView& tensor, const QueryBlock& block, int64_t row) {
    return tensor.at<T>(block.batch, block.rows.first + row, block.head);
  }
  int64_t lse_offset(const QueryBlock& block) const {
    return (int64_t{block.batch} * layout_.heads + block.head) * layout_.rows + block.rows.first;
  }
  const T* key_row(Half half, int64_t key) const {
    const HeadStrides strides = layout_.key_strides(half, step_);
    const Place first = layout_.keys_at(half, rank_, step_, tile_.batch, tile_.rows.first);
    return reinterpret_cast<const T*>(resolve_(first)) + offset_in(strides, 0, key, tile_.kv_head);
  }
  float dot(const T* a, const T* b) const {
    float sum = 0;
    for (int i = 0; i < layout_.dim; ++i) sum += to_float(a[i]) * to_float(b[i]);
    return sum;
  }

  void add_pair(const QueryBlock& block, int64_t row, int64_t key, float lse, float delta) {
    const int dim = layout_.dim;
    const T* const q = row_of(operands_.q, block, row);
    const T* const dout = row_of(operands_.dout, block, row);
    const T* const k = key_row(Half::kKeys, key);
    const float weight = std::exp(dot(q, k) * operands_.scale - lse);
    const float rounded = to_float(from_float<T>(weight));
    const float of_score = to_float(from_float<T>(weight * (dot(dout, key_row(Half::kValues, key)) - delta)));
    for (int i = 0; i < dim; ++i) {
      value_gradients_[key * dim + i] += rounded * to_float(dout[i]);
      key_gradients_[key * dim + i] += of_score * to_float(q[i]);
      query_gradients_[row * dim + i] += of_score * to_float(k[i]);
    }
  }

  // The gradient of a key's score is that of the scaled score times the scale.
  void round_keys(Half half, const HeadRow& first, int64_t rows, const float* sums) const {
    const float scale = half == Half::kKeys ? operands_.scale : 1;
    const HeadView& to = half == Half::kKeys ? operands_.dk : operands_.dv;
    for (int64_t row = 0; row < rows; ++row) {
      T* const out = to.at<T>(first.batch, first.row + row, first.kv_head);
      for (int i = 0; i < layout_.dim; ++i) out[i] = from_float<T>(scale * sums[row * layout_.dim + i]);
    }
  }

  float sink_gradient(const QueryBlock& block) const {
    const Notes notes = notes_of(block);
    float sum = 0;
    for (int64_t row = 0; row < block.rows.count; ++row) {
      sum += std::exp(operands_.sink[block.head] - notes.lse[row]) * notes.delta[row];
    }
    return sum;
  }

  const BackwardLayout& layout_;
  const int rank_;
  const BackwardOperands operands_;
  Resolve resolve_;
  KeyTile tile_;  // in hand
  int step_ = 0;
  std::vector<float> key_gradients_;
  std::vector<float> value_gradients_;
  std::vector<float> query_gradients_;  // of a block, by this tile alone
};

}  // namespace mk::attention

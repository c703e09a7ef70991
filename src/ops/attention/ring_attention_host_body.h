// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_host_body.h — a tile's attention as plain loops.
//
// CPU threads and simulated workers use it; they differ in how a Place becomes a pointer.  A tile's results are sums of
// values, each weighted with exp(score - maximum), and the sum of these weights: all in fp32.  In the state window lie
// the results row by row, then the maxima, then the sums.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/half.h"
#include "ops/attention/ring_attention_layout.h"
#include "ops/attention/ring_attention_operands.h"

namespace mk::attention {

// Resolve: Place → std::byte*.
template <class T, class Resolve>
class HostBody {
 public:
  static constexpr int kBlock = 32;  // keys whose scores are made before results are scaled

  HostBody(const Layout& layout, int rank, const Operands& operands, Resolve resolve)
      : layout_(layout), rank_(rank), operands_(operands), resolve_(std::move(resolve)) {}

  void begin(const QueryTile& tile) {
    load_queries(tile);
    results_.assign(tile.rows.count * layout_.dim, 0);
    maxima_.assign(tile.rows.count, kNoScore);
    sums_.assign(tile.rows.count, 0);
  }
  void resume(const QueryTile& tile) {
    load_queries(tile);
    const float* const state = state_of(tile);
    const int64_t rows = tile.rows.count;
    results_.assign(state, state + rows * layout_.dim);
    maxima_.assign(state + rows * layout_.dim, state + rows * (layout_.dim + 1));
    sums_.assign(state + rows * (layout_.dim + 1), state + rows * (layout_.dim + 2));
  }
  void pause(const QueryTile& tile) {
    float* to = state_of(tile);
    for (const std::vector<float>* part : {&results_, &maxima_, &sums_}) to = std::ranges::copy(*part, to).out;
  }

  void attend(const QueryTile& tile, int step, const Segment& segment) {
    const KeyRows keys = rows_at(Half::kKeys, tile, step, segment);
    const KeyRows values = rows_at(Half::kValues, tile, step, segment);
    for (int64_t first = 0; first < segment.rows.count; first += kBlock) {
      const int count = static_cast<int>(std::min<int64_t>(kBlock, segment.rows.count - first));
      for (int64_t row = 0; row < tile.rows.count; ++row) {
        attend_block(tile.position + row, segment.position + first, count, row, keys.from(first), values.from(first));
      }
    }
  }

  void finish(const QueryTile& tile) {
    const int dim = layout_.dim;
    for (int64_t row = 0; row < tile.rows.count; ++row) {
      if (operands_.sink != nullptr) add_sink(row, operands_.sink[tile.head]);
      const float sum = sums_[row];
      T* const o = operands_.o.at<T>(tile.batch, tile.rows.first + row, tile.head);
      for (int i = 0; i < dim; ++i) o[i] = from_float<T>(sum > 0 ? results_[row * dim + i] / sum : 0.0f);
      if (operands_.lse == nullptr) continue;
      const int64_t head = int64_t{tile.batch} * layout_.heads + tile.head;
      operands_.lse[head * layout_.rows + tile.rows.first + row] = sum > 0 ? maxima_[row] + std::log(sum) : kNoScore;
    }
  }

 private:
  static constexpr float kNoScore = -std::numeric_limits<float>::infinity();

  // Of a head's keys or values.
  struct KeyRows {
    const T* first;
    int64_t stride;

    const T* row(int64_t i) const { return first + i * stride; }
    KeyRows from(int64_t i) const { return {row(i), stride}; }
  };
  KeyRows rows_at(Half half, const QueryTile& tile, int step, const Segment& segment) const {
    const HeadStrides strides = layout_.key_strides(half, step);
    const int64_t head = tile.head / (layout_.heads / layout_.kv_heads);
    const Place first = layout_.keys_at(half, rank_, step, tile.batch, segment.rows.first);
    return {reinterpret_cast<const T*>(resolve_(first)) + head * strides.head, strides.row};
  }
  float* state_of(const QueryTile& tile) { return reinterpret_cast<float*>(resolve_(layout_.state_at(rank_, tile))); }

  void load_queries(const QueryTile& tile) {
    queries_.resize(tile.rows.count * layout_.dim);
    for (int64_t row = 0; row < tile.rows.count; ++row) {
      const T* const q = operands_.q.at<const T>(tile.batch, tile.rows.first + row, tile.head);
      for (int i = 0; i < layout_.dim; ++i) queries_[row * layout_.dim + i] = to_float(q[i]) * operands_.scale;
    }
  }

  // Keys of `count` positions from `first` on, for one row, whose query is at `position`.
  void attend_block(int64_t position, int64_t first, int count, int64_t row, const KeyRows& keys,
                    const KeyRows& values) {
    const int dim = layout_.dim;
    const float* const query = queries_.data() + row * dim;
    float scores[kBlock];
    float most = maxima_[row];
    for (int i = 0; i < count; ++i) {
      scores[i] = kNoScore;
      if (!layout_.mask.sees(position, first + i)) continue;
      float score = 0;
      for (int d = 0; d < dim; ++d) score += query[d] * to_float(keys.row(i)[d]);
      scores[i] = score;
      most = std::max(most, score);
    }
    if (most == kNoScore) return;
    float* const results = results_.data() + row * dim;
    raise_maximum(row, most);
    for (int i = 0; i < count; ++i) {
      if (scores[i] == kNoScore) continue;
      const float weight = std::exp(scores[i] - most);
      sums_[row] += weight;
      for (int d = 0; d < dim; ++d) results[d] += weight * to_float(values.row(i)[d]);
    }
  }

  void add_sink(int64_t row, float sink) {
    raise_maximum(row, std::max(maxima_[row], sink));
    sums_[row] += std::exp(sink - maxima_[row]);
  }

  void raise_maximum(int64_t row, float most) {
    if (most == maxima_[row]) return;
    const float scale = std::exp(std::exchange(maxima_[row], most) - most);
    sums_[row] *= scale;
    for (int d = 0; d < layout_.dim; ++d) results_[row * layout_.dim + d] *= scale;
  }

  const Layout& layout_;
  const int rank_;
  const Operands operands_;
  Resolve resolve_;
  std::vector<float> queries_;  // scaled
  std::vector<float> results_;
  std::vector<float> maxima_;
  std::vector<float> sums_;
};

}  // namespace mk::attention

// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_host_body.h — the experts of a layer, and sums of their results, as plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/half.h"
#include "ops/moe/moe_host_body.h"
#include "ops/moe/moe_layer_operands.h"
#include "ops/moe/moe_layer_protocol.h"

namespace mk::moe {

// Resolve: Place → std::byte*.
template <class T, class Resolve>
class LayerHostBody : public HostBody<T, Resolve> {
 public:
  using Base = HostBody<T, Resolve>;

  LayerHostBody(const LayerLayout& layout, int rank, const LayerOperands& operands, Resolve resolve)
      : Base(layout, rank, operands.routing, std::move(resolve)), layer_(layout), own_(operands), sum_(layout.k) {}

  // Also the Records of the slice's tokens that cross.
  template <class M>
  void list(M& m, int slice) {
    Base::list(m, slice);
    this->for_each_token(slice, [&](int64_t token) {
      for (int node = 0; node < layer_.world.nodes; ++node) {
        if (!crosses(token, node)) continue;
        const int64_t index = *this->words(layer_.crossed_at(this->rank_, node, token));
        const Place at = layer_.record_at(this->rank_, node, index);
        uint32_t* const record = this->words(at);
        std::memset(record, 0, layer_.record_bytes());
        record[0] = static_cast<uint32_t>(token);
        for (int slot = 0; slot < layer_.topk; ++slot) {
          record[1 + slot] = static_cast<uint32_t>(this->expert_of(token, slot));
        }
        m.store(at, layer_.record_bytes());
      }
    });
  }

  // Also what is due back.
  template <class M>
  void plan(M& m, int part) {
    Base::plan(m, part);
    if (part > 0) return;
    const Place at = layer_.due_back_at(this->rank_, 0);
    const uint64_t bytes = layer_.due_back_bytes();
    uint32_t* const due = this->words(at);
    if (m.epoch() == 1) {
      std::memset(due, 0, bytes);
    } else {
      m.load(at, bytes);
    }
    const uint32_t* const plan = this->words(layer_.plan_at(this->rank_, 0));
    if (plan[layer_.status_word()] == 0) {
      add_due_back(
          layer_, this->rank_, [&](int rank) { return this->words(layer_.counts_at(this->rank_, rank, m.epoch())); },
          due);
    }
    m.store(at, bytes);
  }

  void activate(const LayerTile& tile) {
    const Range cols = block_range(layer_.inter, layer_.act_tile_n, tile.col_block);
    const T* const gate = static_cast<const T*>(own_.w13) + tile.expert * 2 * layer_.inter * layer_.k;
    const T* const up = gate + layer_.inter * layer_.k;
    for (int i = 0; i < tile.rows; ++i) {
      const T* const x = elements(layer_.row_at(this->rank_, tile.row + i));
      T* const to = elements(layer_.activation_at(this->rank_, tile.row + i));
      T* const kept = own_.kept == nullptr ? nullptr : static_cast<T*>(own_.kept) + (tile.row + i) * 2 * layer_.inter;
      for (int64_t col = cols.first; col < cols.first + cols.count; ++col) {
        const float g = dot(x, gate + col * layer_.k, layer_.k);
        const float u = dot(x, up + col * layer_.k, layer_.k);
        const float gate_in = layer_.clamp.gate(g);
        to[col] = from_float<T>(gate_in / (1 + std::exp(-gate_in)) * layer_.clamp.up(u));
        if (kept == nullptr) continue;
        kept[col] = from_float<T>(g);
        kept[layer_.inter + col] = from_float<T>(u);
      }
    }
  }

  void multiply(const LayerTile& tile) {
    const Range cols = block_range(layer_.n, layer_.tile_n, tile.col_block);
    const T* const w2 = static_cast<const T*>(own_.w2) + tile.expert * layer_.n * layer_.inter;
    for (int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
      const T* const a = elements(layer_.activation_at(this->rank_, row));
      T* const to = elements(layer_.result_at(this->rank_, row));
      const float weight = weight_of_row(row);
      for (int64_t col = cols.first; col < cols.first + cols.count; ++col) {
        to[col] = from_float<T>(weight * dot(a, w2 + col * layer_.inter, layer_.inter));
      }
    }
  }

  template <class ToAt>
  void keep_places(int64_t row, int rows, const ToAt& to_at) {
    for (int i = 0; i < rows; ++i) *this->words(to_at(i)) = static_cast<uint32_t>(row + i);
  }

  void clear_sum() { std::fill(sum_.begin(), sum_.end(), 0.0f); }
  void add(const Place& from) {
    const T* const row = elements(from);
    for (int64_t col = 0; col < layer_.k; ++col) sum_[col] += to_float(row[col]);
  }
  void store_sum(const Place& to) { store_sum(elements(to)); }
  void write_out(int64_t token) { store_sum(static_cast<T*>(own_.out) + token * layer_.k); }

 protected:
  T* elements(const Place& at) { return reinterpret_cast<T*>(this->resolve_(at)); }
  void store_sum(T* to) {
    for (int64_t col = 0; col < layer_.k; ++col) to[col] = from_float<T>(sum_[col]);
  }
  static float dot(const T* a, const T* b, int64_t count) {
    float sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += to_float(a[i]) * to_float(b[i]);
    return sum;
  }
  bool crosses(int64_t token, int node) {
    if (node == layer_.world.node_of(this->rank_)) return false;
    for (int slot = 0; slot < layer_.topk; ++slot) {
      const int expert = this->expert_of(token, slot);
      if (expert >= 0 && layer_.node_of_expert(expert) == node) return true;
    }
    return false;
  }

  float weight_of_row(int64_t row) {
    return reinterpret_cast<const Route*>(this->resolve_(layer_.origin_at(this->rank_, row)))->weight;
  }

  const LayerLayout& layer_;
  const LayerOperands own_;
  std::vector<float> sum_;  // of the token in hand
};

}  // namespace mk::moe

// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_body.cuh — what a warp does for a layer of experts besides routing: records of tokens that cross,
// what is due back, and sums of results.
#pragma once

#include <cstdint>

#include "ops/moe/moe_layer_layout.h"
#include "ops/moe/moe_layer_operands.h"
#include "ops/moe/moe_route_body.cuh"
#include "target/sm90/row_sum.cuh"

namespace mk::moe {

// Sum: a RowSum.
template <class Sum>
class LayerBody : public RouteBody {
 public:
  // `scratch` as for RouteBody; null for a warp that only sums.
  __device__ LayerBody(const RankView& view, const LayerLayout& layout, const LayerOperands& operands,
                       std::byte* scratch)
      : RouteBody(view, layout, operands.routing, scratch), layer_(layout), out_(operands.out) {}

  // Also the Records of the slice's tokens that cross.
  template <class M>
  __device__ void list(M& m, int slice) {
    RouteBody::list(m, slice);
    if (layer_.world.nodes == 1) return;
    const Range tokens = block_range(this->tokens(), layer_.slice_tokens, slice);
    for (int64_t token = tokens.first + lane(); token < tokens.first + tokens.count; token += 32) {
      for (int node = 0; node < layer_.world.nodes; ++node) {
        if (crosses(token, node)) write_record(node, token);
      }
    }
    sm90::rows_before_async_reads();  // they are put
    m.store(layer_.list_at(view_.rank, 0), 0);
  }

  // Also what is due back; see add_due_back.
  template <class M>
  __device__ void plan(M& m) {
    RouteBody::plan(m);
    const uint32_t* const plan = words(layer_.plan_at(view_.rank, 0));
    uint32_t* const due = words(layer_.due_back_at(view_.rank, 0));
    const bool is_refused = plan[layer_.status_word()] != 0;
    for (int i = lane(); i < layer_.node_experts(); i += 32) {
      uint64_t rows = m.epoch() == 1 ? 0 : uint64_t{due[2 * i + 1]} << 32 | due[2 * i];
      const int visit = layer_.visit_of_expert(view_.rank, i);
      for (int step = 0; step < layer_.world.nodes && !is_refused; ++step) {
        rows += plan[layer_.source_word(step, visit) + 2];
      }
      due[2 * i] = static_cast<uint32_t>(rows);
      due[2 * i + 1] = static_cast<uint32_t>(rows >> 32);
    }
    m.store(layer_.due_back_at(view_.rank, 0), layer_.node_experts() * 2 * kWord);
  }

  __device__ int expert_of_pair(int64_t pair) const { return expert_of(id_of(pair)); }

  __device__ void clear_sum() { sum_.clear(); }
  __device__ void add(const Place& from) { sum_.add(view_.windows.resolve(layer_.world, from)); }
  __device__ void store_sum(const Place& to) {
    sum_.write(view_.windows.resolve(layer_.world, to), layer_.row_bytes());
  }
  __device__ void write_out(int64_t token) {
    sum_.write(static_cast<std::byte*>(out_) + token * layer_.row_bytes(), layer_.row_bytes());
  }

 private:
  __device__ bool crosses(int64_t token, int node) const {
    if (node == layer_.world.node_of(view_.rank)) return false;
    for (int slot = 0; slot < layer_.topk; ++slot) {
      const int expert = expert_of_pair(token * layer_.topk + slot);
      if (expert >= 0 && layer_.node_of_expert(expert) == node) return true;
    }
    return false;
  }
  __device__ void write_record(int node, int64_t token) const {
    uint32_t* const record =
        words(layer_.record_at(view_.rank, node, read(layer_.crossed_at(view_.rank, node, token))));
    record[0] = static_cast<uint32_t>(token);
    for (int slot = 0; slot < layer_.topk; ++slot) {
      record[1 + slot] = static_cast<uint32_t>(expert_of_pair(token * layer_.topk + slot));
    }
  }

  static_assert(Sum::kMostRows == kMostGpuAddends);

  const LayerLayout& layer_;
  void* const out_;
  Sum sum_;
};

}  // namespace mk::moe

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

// Sum: a RowSum, a PieceSum, or NoSum.
template <class Sum>
class LayerBody : public RouteBody {
 public:
  // `scratch` as for RouteBody; null for a warp that only sums.
  __device__ LayerBody(const RankView& view, const LayerLayout& layout, const LayerOperands& operands,
                       std::byte* scratch, const Sum& sum = Sum())
      : RouteBody(view, layout, operands.routing, scratch), layer_(layout), out_(operands.out), sum_(sum) {}

  // Also the Records of the slice's tokens that cross.
  template <class M>
  __device__ void list(M& m, int slice) {
    RouteBody::list(m, slice, [&](int node, int token, uint32_t place, int first_slot) {
      uint32_t* const record = words(layer_.record_at(view_.rank, node, place));
      if (first_slot == 0) record[0] = static_cast<uint32_t>(token);
      for (int slot = first_slot; slot < layer_.topk; slot += 32) {
        record[1 + slot] = static_cast<uint32_t>(expert_of(token, slot));
      }
    });
  }

  // Also what is due back; see add_due_back.
  template <class M>
  __device__ void plan(M& m, int part) {
    auto* const due = reinterpret_cast<uint4*>(words(layer_.due_back_at(view_.rank, 0)));
    this->make_plan(m, part, [&](const PlanWarp& plan, int batch, bool is_refused) {
      const uint32_t added = is_refused ? 0 : plan.rows_of_batch(batch);
      if (lane() != 0) return;
      const uint64_t before = m.epoch() == 1 ? 0 : uint64_t{due[batch].y} << 32 | due[batch].x;
      due[batch] = {static_cast<uint32_t>(before + added), static_cast<uint32_t>((before + added) >> 32), added, 0};
    });
    m.store(layer_.due_back_at(view_.rank, 0), layer_.due_back_bytes());
  }

  template <class ToAt>
  __device__ void keep_places(int64_t row, int rows, const ToAt& to_at) {
    if (lane() < rows) *words(to_at(lane())) = static_cast<uint32_t>(row + lane());
  }

  __device__ void clear_sum() { sum_.clear(); }
  __device__ void add(const Place& from) { sum_.add(view_.windows.resolve(layer_.world, from)); }
  __device__ void store_sum(const Place& to) {
    sum_.write(view_.windows.resolve(layer_.world, to), layer_.row_bytes());
  }
  __device__ void write_out(int64_t token) {
    sum_.write(static_cast<std::byte*>(out_) + token * layer_.row_bytes(), layer_.row_bytes());
  }

 private:
  static_assert(sm90::kMostSumRows == kMostGpuAddends);

  const LayerLayout& layer_;
  void* const out_;
  Sum sum_;
};

}  // namespace mk::moe

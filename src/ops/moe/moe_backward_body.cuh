// SPDX-License-Identifier: MIT
// ops/moe/moe_backward_body.cuh — what a warp does for the backward pass besides what it does for a layer of experts:
// scores of pairs.
#pragma once

#include "ops/moe/moe_backward_layout.h"
#include "ops/moe/moe_backward_operands.h"
#include "ops/moe/moe_layer_body.cuh"
#include "ops/moe/moe_layer_protocol.h"

namespace mk::moe {

// Sum: as for LayerBody.
template <class Sum>
class BackwardBody : public LayerBody<Sum> {
 public:
  using Base = LayerBody<Sum>;

  __device__ BackwardBody(const RankView& view, const BackwardLayout& layout, const BackwardOperands& operands,
                          std::byte* scratch, const Sum& sum = Sum())
      : Base(view, layout, operands.layer, scratch, sum), layout_(layout), out_(operands.scores) {}

  __device__ void clear_sum() {
    Base::clear_sum();
    scores_[0] = scores_[1] = 0;
  }
  __device__ void take_score(int slot, const Place& from) {
    if (slot % 32 != this->lane()) return;
    const float score = __ldcg(reinterpret_cast<const float*>(this->view_.windows.resolve(layout_.world, from)));
    (slot < 32 ? scores_[0] : scores_[1]) = score;
  }
  __device__ void store_sum(const Place& to) {
    Base::store_sum(to);
    const auto count = static_cast<int>(layout_.scores_bytes() / sizeof(float));
    write(reinterpret_cast<float*>(this->view_.windows.resolve(layout_.world, layout_.score_in(to))), count);
  }
  __device__ void write_out(int64_t token) {
    Base::write_out(token);
    if (out_ != nullptr) write(out_ + token * layout_.named_slots(), layout_.named_slots());
  }

 private:
  __device__ void write(float* to, int count) const {
    const int lane = this->lane();
    if (lane < count) to[lane] = scores_[0];
    if (lane + 32 < count) to[lane + 32] = scores_[1];
  }

  const BackwardLayout& layout_;
  float* const out_;
  float scores_[2] = {};  // of slots `lane` and `lane + 32`
};

// The body of tell_returned.
struct Scores {
  const RankView& view;
  const BackwardLayout& layout;

  // A lane for each row; in the order of its parts.
  __device__ void make_scores(const LayerTile& tile) const {
    const auto floats = [&](const Place& at) {
      return reinterpret_cast<float*>(view.windows.resolve(layout.world, at));
    };
    for (int64_t row = tile.row + threadIdx.x % 32; row < tile.row + tile.rows; row += 32) {
      const float* const parts = floats(layout.part_at(view.rank, row));
      float score = 0;
#pragma unroll 1
      for (int part = 0; part < layout.act_blocks(); ++part) score += __ldcg(parts + part);
      *floats(layout.score_at(view.rank, row)) = score;
    }
  }
};

}  // namespace mk::moe

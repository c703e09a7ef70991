// SPDX-License-Identifier: MIT
// ops/moe/backward_gates.cuh — the epilogue of dout · w2: gradients of gate and up, and what the weights' need.
#pragma once

#include <cstdint>

#include "target/sm90/epilogue.cuh"

namespace mk::moe {

// Where a tile begins in what it reads and writes.
template <class Element>
struct GatesOfTile {
  const Element* gates;  // [row][2][inter]
  Element* gradients;    // [row][2][inter]
  Element* scaled;       // [row][inter]
  float* parts;          // [row][parts_pitch]
  int parts_pitch;
  int inter;
  int rows;  // of the tile
  int cols;
};

// A hook of kFold 1 for one tile.  A thread has two rows, eight apart, whose weights it has.  Clamp: ActivationClamp or
// NoClamp.
template <class Element, class Clamp>
class BackwardGates {
 public:
  static constexpr int kFold = 1;
  static constexpr bool kHasOwnPlaces = true;

  __device__ BackwardGates(const GatesOfTile<Element>& of, int row, float upper_weight, float lower_weight,
                           const Clamp& clamp)
      : of_(of), row_(row), upper_weight_(upper_weight), lower_weight_(lower_weight), clamp_(clamp) {}

  __device__ void operator()(float& x, float& y, int row, int col) const {
    const bool is_upper = (row & 8) == 0;
    const float weight = is_upper ? upper_weight_ : lower_weight_;
    if (row >= of_.rows || col >= of_.cols) return;
    const int gate_at = row * 2 * of_.inter + col;
    const float2 gate = sm90::unpack(load(of_.gates + gate_at));
    const float2 up = sm90::unpack(load(of_.gates + gate_at + of_.inter));
    const Made first = made(gate.x, up.x, x, weight);
    const Made second = made(gate.y, up.y, y, weight);
    store(of_.gradients + gate_at, first.gate, second.gate);
    store(of_.gradients + gate_at + of_.inter, first.up, second.up);
    store(of_.scaled + row * of_.inter + col, first.scaled, second.scaled);
    const float score = first.score + second.score;
    upper_score_ += is_upper ? score : 0.0f;
    lower_score_ += is_upper ? 0.0f : score;
  }

  __device__ void finish() const {
    write_score(row_, upper_score_);
    write_score(row_ + 8, lower_score_);
  }

 private:
  using Pair = std::conditional_t<std::is_same_v<Element, __half>, __half2, __nv_bfloat162>;

  struct Made {
    float gate, up, scaled, score;
  };
  __device__ Made made(float whole_gate, float whole_up, float sum, float weight) const {
    const float gate = clamp_.gate(whole_gate);
    const float up = clamp_.up(whole_up);
    const float sigmoid = __fdividef(1.0f, 1.0f + __expf(-gate));
    const float silu = gate * sigmoid;
    const float a = silu * up;
    const float d = weight * sum;
    return {clamp_.cuts_gate(whole_gate) ? 0.0f : d * up * sigmoid * (1.0f + gate * (1.0f - sigmoid)),
            clamp_.cuts_up(whole_up) ? 0.0f : d * silu, weight * a, sum * a};
  }

  // Four threads share a row.
  __device__ void write_score(int row, float score) const {
    score += __shfl_xor_sync(0xffffffffu, score, 1);
    score += __shfl_xor_sync(0xffffffffu, score, 2);
    if (threadIdx.x % 4 == 0 && row < of_.rows) of_.parts[row * of_.parts_pitch] = score;
  }

  __device__ static Pair load(const Element* at) { return __ldg(reinterpret_cast<const Pair*>(at)); }
  __device__ static void store(Element* at, float x, float y) {
    *reinterpret_cast<uint32_t*>(at) = sm90::pack<Element>(x, y);
  }

  const GatesOfTile<Element> of_;
  const int row_;  // the thread's first
  const float upper_weight_;
  const float lower_weight_;
  const Clamp clamp_;
  mutable float upper_score_ = 0;
  mutable float lower_score_ = 0;
};

}  // namespace mk::moe

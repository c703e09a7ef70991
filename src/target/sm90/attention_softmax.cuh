// SPDX-License-Identifier: MIT
// target/sm90/attention_softmax.cuh — softmax of a warpgroup's scores, block of keys by block of keys, in registers.
//
// A thread has two rows of scores (fragment.h); the four threads of a quad share them.  Weights are 2^(score · scale -
// greatest · scale), where scale holds log2 e: one FFMA and one exponential for each.  Sums are of the thread's own
// columns until the end, greatest scores are those of the whole row.
#pragma once

#include <cstdint>

#include "target/sm90/attention_visit.h"
#include "target/sm90/epilogue.cuh"
#include "target/sm90/fragment.h"
#include "target/sm90/ptx.cuh"

namespace mk::sm90 {

__device__ inline float no_score() { return __int_as_float(0xff800000); }  // -inf

template <int kCols>
using Scores = float[kCols / 2];

// In which of a thread's two rows sum i lies.
MK_HD constexpr int row_of_sum(int i) { return i % 4 / 2; }

// Scores that the mask hides become -inf.  first_row: of the tile, the consumer's.
template <int kCols>
__device__ inline void hide(float (&scores)[kCols / 2], const BlockMask& mask, int first_row, int thread) {
  const int col = Fragment::sum_col(thread, 0);
  const int row = first_row + Fragment::sum_row(thread, 0);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int first = row + 8 * r + mask.first - col;
    const int last = min(mask.count - 1, row + 8 * r + mask.last) - col;
#pragma unroll
    for (int i = 0; i < kCols / 2; ++i) {
      const int at = Fragment::sum_col(0, i);
      if (row_of_sum(i) == r && (at < first || at > last)) scores[i] = no_score();
    }
  }
}

// The scores that weights are relative to are the greatest, or a little less: they follow once a score is 2^kSlack
// times as heavy.  Weights stay small enough for 16 bits, and the output seldom has to be shrunk.
struct SoftmaxRows {
  static constexpr float kSlack = 8;

  float greatest[2];
  float sum[2];

  __device__ void clear() {
    greatest[0] = greatest[1] = no_score();
    sum[0] = sum[1] = 0;
  }

  // Scores become weights.  True, for a whole warp: what earlier weights made has to shrink by `factor`.
  template <int kCount>
  __device__ bool weigh(float (&scores)[kCount], float scale, float (&factor)[2]) {
    float top[4] = {scores[0], scores[1], scores[2], scores[3]};
#pragma unroll
    for (int i = 4; i < kCount; ++i) top[i % 4] = fmaxf(top[i % 4], scores[i]);
    top[0] = fmaxf(top[0], top[1]);
    top[2] = fmaxf(top[2], top[3]);
    const bool is_heavier = (top[0] - greatest[0]) * scale > kSlack || (top[2] - greatest[1]) * scale > kSlack;
    const bool follows = __any_sync(0xffffffffu, is_heavier) != 0;
    if (follows) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float found = fmaxf(greatest[r], top[2 * r]);
        found = fmaxf(found, __shfl_xor_sync(0xffffffffu, found, 1));
        found = fmaxf(found, __shfl_xor_sync(0xffffffffu, found, 2));
        factor[r] = exp2_of(greatest[r] * scale - taken(found, scale));
        greatest[r] = found;
        sum[r] *= factor[r];
      }
    }
    const float less[2] = {-taken(greatest[0], scale), -taken(greatest[1], scale)};
    float more[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      scores[i] = exp2_of(__fmaf_rn(scores[i], scale, less[row_of_sum(i)]));
      (i % 2 == 0 ? sum : more)[row_of_sum(i)] += scores[i];
    }
    sum[0] += more[0];
    sum[1] += more[1];
    return follows;
  }

 private:
  // Without a key, all weights of a row are 0.
  __device__ static float taken(float greatest, float scale) {
    return greatest == no_score() ? 0.0f : greatest * scale;
  }
};

// Weights as the left operand of the product with values.
template <class Element, int kCols>
__device__ inline void round_weights(const float (&weights)[kCols / 2], uint32_t (&rounded)[kCols / 16][4]) {
#pragma unroll
  for (int step = 0; step < kCols / 16; ++step) {
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const int i = Fragment::sum_of_word(step, word);
      rounded[step][word] = pack<Element>(weights[i], weights[i + 1]);
    }
  }
}

template <int kDim>
__device__ inline void shrink(float (&output)[kDim / 2], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < kDim / 2; ++i) output[i] *= factor[row_of_sum(i)];
}

}  // namespace mk::sm90

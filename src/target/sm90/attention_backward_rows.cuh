// SPDX-License-Identifier: MIT
// target/sm90/attention_backward_rows.cuh — what happens to rows of queries before the backward engine's visits, and
// after them.  A warp calls these.
#pragma once

#include "target/sm90/attention_backward_maths.cuh"
#include "target/sm90/vector.cuh"

namespace mk::sm90 {

// Rows of a head: the first, and how many elements lead to the next.
template <class Element>
struct HeadRows {
  const Element* first = nullptr;
  int64_t of_row = 0;
};

// Notes of a block's rows, of which `count` exist, from the output, its gradients, and the logarithms of sums.
template <class Config, class Element>
__device__ void note_rows(const HeadRows<Element>& o, const HeadRows<Element>& g, const float* lse, int count,
                          RowNotes<Config>& notes) {
  constexpr int kLanes = Config::kHeadDim / 8;  // of a row
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int in_row = lane % kLanes;
#pragma unroll 4
  for (int first = 0; first < Config::kQueries; first += 32 / kLanes) {
    const int row = first + lane / kLanes;
    float sum = 0;
    if (row < count) {
      Vector<Element> outputs;
      Vector<Element> gradients;
      outputs.add(__ldg(reinterpret_cast<const uint4*>(o.first + row * o.of_row) + in_row));
      gradients.add(__ldg(reinterpret_cast<const uint4*>(g.first + row * g.of_row) + in_row));
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += outputs.values[i] * gradients.values[i];
    }
#pragma unroll
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (in_row != 0) continue;
    const float log_of_sum = row < count ? lse[row] : no_score();
    notes.lse[row] = log_of_sum == no_score() ? -no_score() : log_of_sum * kLog2E;
    notes.delta[row] = sum;
  }
}

// A block's sums, times `scale`, to `count` rows from `first` on.
template <class Config, class Element>
__device__ void store_query_gradients(const float* sums, float scale, Element* first, int64_t of_row, int count) {
  const float by[2] = {scale, scale};
#pragma unroll 1
  for (int quarter = 0; quarter < 4 * Config::kParts; ++quarter) {  // what a warp held of a part
    const int part = quarter / 4;
    const int thread = quarter % 4 * 32 + static_cast<int>(threadIdx.x) % 32;
    const float4* const from = reinterpret_cast<const float4*>(sums + part * Config::kPartFloats) + thread;
    float held[Config::kPartFloats / 128];
#pragma unroll
    for (int i = 0; i < Config::kPartFloats / 512; ++i) {
      const float4 v = __ldcg(from + i * 128);
      held[4 * i] = v.x;
      held[4 * i + 1] = v.y;
      held[4 * i + 2] = v.z;
      held[4 * i + 3] = v.w;
    }
    const int row = (Config::kPartsAreRows ? part * 64 : 0) + Fragment::sum_row(thread, 0);
    const int col = Config::kPartsAreRows ? 0 : part * 64;
    store_rows<64>(first + row * of_row + col, of_row, count - row, by, held);
  }
}

// The sum of exp(sink - lse) · delta over `rows` noted rows that follow each other, as in the notes of a block.
template <class Config>
__device__ float sink_part(const RowNotes<Config>& notes, float sink) {
  float sum = 0;
#pragma unroll
  for (int row = static_cast<int>(threadIdx.x) % 32; row < Config::kQueries; row += 32) {
    sum += exp2_of(sink * kLog2E - __ldcg(&notes.lse[row])) * __ldcg(&notes.delta[row]);
  }
  return sum;
}

}  // namespace mk::sm90

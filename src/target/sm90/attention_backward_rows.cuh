// SPDX-License-Identifier: MIT
// target/sm90/attention_backward_rows.cuh — what happens to rows of queries before the backward engine's visits, and
// after them.  The consumers of a thread block call these together.
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
  constexpr int kAtOnce = 128 * Config::kConsumers / kLanes;
  const int thread = static_cast<int>(threadIdx.x) - 128;
  const int lane = thread % kLanes;
#pragma unroll
  for (int first = 0; first < Config::kQueries; first += kAtOnce) {
    const int row = first + thread / kLanes;
    float sum = 0;
    if (row < count) {
      Vector<Element> outputs;
      Vector<Element> gradients;
      outputs.add(__ldg(reinterpret_cast<const uint4*>(o.first + row * o.of_row) + lane));
      gradients.add(__ldg(reinterpret_cast<const uint4*>(g.first + row * g.of_row) + lane));
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += outputs.values[i] * gradients.values[i];
    }
#pragma unroll
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (lane != 0) continue;
    const float log_of_sum = row < count ? lse[row] : no_score();
    notes.lse[row] = log_of_sum == no_score() ? -no_score() : log_of_sum * kLog2E;
    notes.delta[row] = sum;
  }
}

// A block's sums, times `scale`, to `count` rows from `first` on.
template <class Config, class Element>
__device__ void store_query_gradients(const float* sums, float scale, Element* first, int64_t of_row, int count) {
  const int consumer = static_cast<int>(threadIdx.x) / 128 - 1;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const float4* const from = reinterpret_cast<const float4*>(sums + consumer * Config::kPartFloats) + thread;
  float part[Config::kPartFloats / 128];
#pragma unroll
  for (int i = 0; i < Config::kPartFloats / 512; ++i) {
    const float4 v = __ldcg(from + i * 128);
    part[4 * i] = v.x;
    part[4 * i + 1] = v.y;
    part[4 * i + 2] = v.z;
    part[4 * i + 3] = v.w;
  }
  const int row = (Config::kPartsAreRows ? consumer * 64 : 0) + Fragment::sum_row(thread, 0);
  const int col = Config::kPartsAreRows ? 0 : consumer * 64;
  const float by[2] = {scale, scale};
  store_rows<64>(first + row * of_row + col, of_row, count - row, by, part);
}

}  // namespace mk::sm90

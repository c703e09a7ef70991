// SPDX-License-Identifier: MIT
// target/sm90/attention_output.cuh — the end of a visit: the output and its logarithms of sums, or the state for later.
//
// A state is what a tile's threads hold, in fp32 and in their order, so that every access is 16 bytes a thread and
// whole lines a warp.  It is written and read by whatever block has the tile; a caller that lets another block resume
// orders the two.
#pragma once

#include <cstddef>
#include <cstdint>

#include "target/sm90/attention_softmax.cuh"
#include "target/sm90/attention_visit.h"
#include "target/sm90/ptx.cuh"

namespace mk::sm90 {

// O is [batch, row, head, dim] with any strides of whole 16-byte vectors; the sums' logarithms are [batch, head, row].
template <class Element>
struct AttentionOutput {
  Element* o = nullptr;
  int64_t o_of_batch = 0;  // strides in elements
  int64_t o_of_row = 0;
  int64_t o_of_head = 0;
  float* lse = nullptr;  // may be null
  int64_t lse_of_batch = 0;
  int64_t lse_of_head = 0;
  const float* sinks = nullptr;  // of each head, a score that no value belongs to; may be null
  float4* states = nullptr;      // only if a visit is paused or resumed
};

template <class Config>
struct AttentionState {
  static constexpr int kVectors = Config::kHeadDim / 8 + 1;  // of a thread: its part of O; two maxima, two sums
  static constexpr size_t kBytes = sizeof(float4) * kVectors * 128 * Config::kConsumers;

  template <class Vector>
  __device__ static Vector* of_thread(Vector* states, int state) {
    const int consumer_thread = thread_again() - 128;
    return states + (static_cast<int64_t>(state) * Config::kConsumers + consumer_thread / 128) * kVectors * 128 +
           consumer_thread % 128;
  }

  __device__ static void load_output(const float4* states, int state, float (&o)[Config::kHeadDim / 2]) {
    const float4* from = of_thread(states, state);
#pragma unroll
    for (int i = 0; i < kVectors - 1; ++i) {
      const float4 v = __ldcg(from + i * 128);
      o[4 * i] = v.x;
      o[4 * i + 1] = v.y;
      o[4 * i + 2] = v.z;
      o[4 * i + 3] = v.w;
    }
  }
  __device__ static void load_rows(const float4* states, int state, SoftmaxRows& rows) {
    const float4 v = __ldcg(of_thread(states, state) + (kVectors - 1) * 128);
    rows.greatest[0] = v.x;
    rows.greatest[1] = v.y;
    rows.sum[0] = v.z;
    rows.sum[1] = v.w;
  }

  __device__ static void store(float4* states, int state, const float (&o)[Config::kHeadDim / 2],
                               const SoftmaxRows& rows) {
    float4* to = of_thread(states, state);
#pragma unroll
    for (int i = 0; i < kVectors - 1; ++i) {
      __stcg(to + i * 128, make_float4(o[4 * i], o[4 * i + 1], o[4 * i + 2], o[4 * i + 3]));
    }
    __stcg(to + (kVectors - 1) * 128, make_float4(rows.greatest[0], rows.greatest[1], rows.sum[0], rows.sum[1]));
  }
};

// Of a quad's four words each, word i being theirs of vector i: thread t gets vector t, in order.
__device__ inline uint4 own_vector(const uint32_t (&word)[4]) {
  const int thread = thread_again();
  const bool is_odd = (thread & 1) != 0;
  const bool is_upper = (thread & 2) != 0;
  const auto swap = [](bool keeps_second, uint32_t& first, uint32_t& second, int lanes) {
    const uint32_t other = __shfl_xor_sync(0xffffffffu, keeps_second ? first : second, lanes);
    (keeps_second ? first : second) = other;
  };
  uint32_t w[4] = {word[0], word[1], word[2], word[3]};
  swap(is_upper, w[0], w[2], 2);
  swap(is_upper, w[1], w[3], 2);
  swap(is_odd, w[0], w[1], 1);
  swap(is_odd, w[2], w[3], 1);
  return {w[0], w[1], w[2], w[3]};
}

// Rounds a thread's two rows of sums, each times its factor, and stores them if they are below `rows`.  first: the
// head's first column of the thread's first row.
template <int kDim, class Element>
__device__ void store_rows(Element* first, int64_t of_row, int rows, const float (&by)[2],
                           const float (&sums)[kDim / 2]) {
  Element* const to = first + thread_again() % 4 * 8;
#pragma unroll
  for (int i = 0; i < kDim / 2; i += 16) {  // 32 columns: a vector of either row for each of the quad
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      uint32_t word[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int at = i + 4 * j + 2 * r;
        word[j] = pack<Element>(sums[at] * by[r], sums[at + 1] * by[r]);
      }
      const uint4 vector = own_vector(word);
      if (8 * r < rows) *reinterpret_cast<uint4*>(to + 8 * r * of_row + i * 2) = vector;
    }
  }
}

// Stores a thread's two rows of sums as they are, if they are below `rows`; rows of kDim columns follow each other.
// first: the first of kCols columns of the thread's first row.
template <int kDim, int kCols>
__device__ void store_sums(float* first, int rows, const float (&sums)[kCols / 2]) {
  const bool is_odd = (thread_again() & 1) != 0;
  float* const to = first + thread_again() % 4 / 2 * 4 + (is_odd ? 8 : 0);
#pragma unroll
  for (int i = 0; i < kCols / 2; i += 8) {  // 16 columns: two threads have a vector of the first 8, two of the others
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float2 low = make_float2(sums[i + 2 * r], sums[i + 2 * r + 1]);
      const float2 high = make_float2(sums[i + 4 + 2 * r], sums[i + 5 + 2 * r]);
      const float x = __shfl_xor_sync(0xffffffffu, is_odd ? low.x : high.x, 1);
      const float y = __shfl_xor_sync(0xffffffffu, is_odd ? low.y : high.y, 1);
      const float4 vector = is_odd ? make_float4(x, y, high.x, high.y) : make_float4(low.x, low.y, x, y);
      if (8 * r < rows) *reinterpret_cast<float4*>(to + 8 * r * kDim + i * 2) = vector;
    }
  }
}

// Divides by the sums and stores the rows that the tile has.  row: of the tile, the thread's first.  scale: as in
// SoftmaxRows.
template <class Config, class Element>
__device__ void store_result(const AttentionOutput<Element>& to, const QueryTile& tile, int row, float scale,
                             float (&o)[Config::kHeadDim / 2], const SoftmaxRows& rows) {
  constexpr float kLn2 = 0.693147180559945f;
  const int in_quad = thread_again() % 4;
  float by[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = rows.sum[r];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    float top = rows.greatest[r] * scale;
    by[r] = 1;
    if (to.sinks != nullptr) {
      const float sink = to.sinks[tile.head] * kLog2E;
      const float higher = fmaxf(top, sink);
      by[r] = exp2_of(top - higher);
      sum = sum * by[r] + exp2_of(sink - higher);
      top = higher;
    }
    by[r] = sum > 0 ? __fdividef(by[r], sum) : 0.0f;
    if (to.lse != nullptr && in_quad == 0 && row + 8 * r < tile.rows) {
      to.lse[tile.batch * to.lse_of_batch + tile.head * to.lse_of_head + tile.row + row + 8 * r] =
          sum > 0 ? (top + __log2f(sum)) * kLn2 : no_score();
    }
  }
  Element* const first = to.o + tile.batch * to.o_of_batch + (tile.row + row) * to.o_of_row + tile.head * to.o_of_head;
  store_rows<Config::kHeadDim>(first, to.o_of_row, tile.rows - row, by, o);
}

}  // namespace mk::sm90

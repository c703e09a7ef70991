// SPDX-License-Identifier: MIT
// tests/cuda/attention_reference.cuh — attention row by row, as plain as can be, for tests of the engine.
//
// Once in fp64, and once as precisely as any kernel with 16-bit weights can be expected to be.
#pragma once

#include <cstdint>

#include "target/sm90/attention_visit.h"
#include "target/sm90/ptx.cuh"

namespace mk::test {

template <class Element>
struct PlainAttention {
  const Element* q;  // [batch, row, head, dim]
  const Element* k;
  const Element* v;
  const int* positions;  // of keys; negative: of no segment
  const float* sinks;    // of heads, or null
  double* o;             // as q
  double* lse;           // [batch, head, row]
  sm90::AttentionMask mask;
  int keys;
  int kv_heads;
  int dim;
  int position;  // of the first query
  double scale;
};

// In fp64; in fp32, with weights and results rounded to the elements' type.
enum class Precision { kExact, kRounded };

// A block for each row, head, batch; shared memory for a double of each key, rounded up to 16 keys.
template <class Real, Precision kPrecision, class Element>
__global__ void plain_attention(const PlainAttention<Element> p) {
  Real* const scores = reinterpret_cast<Real*>(sm90::block_memory());
  const int row = blockIdx.x;
  const int head = blockIdx.y;
  const int batch = blockIdx.z;
  const int heads = gridDim.y;
  const int kv_head = head / (heads / p.kv_heads);
  const auto row_of_keys = [&](const Element* of, int key) {
    return of + ((static_cast<int64_t>(batch) * p.keys + key) * p.kv_heads + kv_head) * p.dim;
  };
  const auto number = [](Element x) { return static_cast<Real>(static_cast<float>(x)); };
  const auto rounded = [](Real x) {
    if constexpr (kPrecision == Precision::kExact) return x;
    return static_cast<Real>(static_cast<float>(static_cast<Element>(static_cast<float>(x))));
  };
  const int64_t at = ((static_cast<int64_t>(batch) * gridDim.x + row) * heads + head) * p.dim;
  const Real none = -INFINITY;
  for (int key = threadIdx.x; key < p.keys; key += blockDim.x) {
    const int ahead = p.position + row - p.positions[key];
    const bool is_seen = p.positions[key] >= 0 && ahead <= p.mask.left && -ahead <= p.mask.right;
    Real score = 0;
    for (int i = 0; i < p.dim; ++i) score += number(p.q[at + i]) * number(row_of_keys(p.k, key)[i]);
    scores[key] = is_seen ? score * static_cast<Real>(p.scale) : none;
  }
  __syncthreads();
  Real most = p.sinks == nullptr ? none : static_cast<Real>(p.sinks[head]);
  for (int key = 0; key < p.keys; ++key) most = max(most, scores[key]);
  Real sum = p.sinks == nullptr ? 0 : exp(static_cast<Real>(p.sinks[head]) - most);
  if (most > none) {
    for (int key = 0; key < p.keys; ++key) sum += exp(scores[key] - most);
  }
  for (int i = threadIdx.x; i < p.dim; i += blockDim.x) {
    Real value = 0;
    for (int key = 0; key < p.keys; ++key) {
      if (scores[key] > none) value += rounded(exp(scores[key] - most)) * number(row_of_keys(p.v, key)[i]);
    }
    p.o[at + i] = sum > 0 ? rounded(value / sum) : 0;
  }
  if (threadIdx.x == 0) {
    p.lse[(static_cast<int64_t>(batch) * heads + head) * gridDim.x + row] = sum > 0 ? most + log(sum) : none;
  }
}

}  // namespace mk::test

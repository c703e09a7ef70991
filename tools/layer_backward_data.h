// SPDX-License-Identifier: MIT
// tools/layer_backward_data.h — inputs of the backward pass of a layer of experts whose results can be judged.
//
//   kExact     Gates and ups are -128, 0 or 128: fp32 has silu(g) = max(g, 0) and silu'(g) = 0, 1/2 or 1 exactly; see
//              layer_data.h.  With p1 products in a sum s of dout · w2, p2 of dgate and of dup in an element of dx, and
//              weights up to W, powers of two are chosen so that
//                dgate · w13 and dup · w13   are integers of at most 2 · W · p1 and W · p1
//                a sum of dx over slots      is one of at most topk · p2 · 3 · W · p1: the type holds it
//                dw13, of so many rows       is, in halves of its unit, one of at most rows · 2 · W · p1: fp32 holds
//                it,
//                                            and it is rounded once; dw2 is smaller
//                dtopk_weight                is one of at most inter · p1: fp32 holds it
//              Both weights are thinned: of each column p1 elements of w2 are left, and p2 of gate and of up.  All else
//              is dense, so that every row counts in every sum over rows.
//   kUniform   Gates lie where silu is curved, and where its slope changes its sign.  The same columns are thinned, and
//              those of x and dout where an expert has many rows: see layer_data.h for why.
//
// The kinds take turns, as in layer_data.h.  Each column has its zeros elsewhere, so that every row of a weight counts
// if it is as long as the period.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "layer_data.h"

namespace mk::tools {

struct BackwardData : LayerData {  // its second_products are those of dgate, and as many are those of dup
  DataSpec dout;                   // of a rank
  DataSpec kept;  // gates of a rank's pairs, [pairs, inter]; their ups are those of the rank + the world's size
};

// The period that leaves at most `products` elements in a column of so many rows.  Prime to the length of a row: each
// column has its zeros elsewhere.
constexpr int64_t column_period_for(int64_t rows, int64_t cols, int64_t products) {
  int64_t period = std::max<int64_t>(ceil_div(rows, products), 1);
  while (period > 1 && std::gcd(period, cols) > 1) ++period;
  return period;
}

// How many products the exact kind has; none if there is no room for one.
struct ExactBackward {
  int weight = 0;
  int64_t first = 0;
  int64_t second = 0;
};

constexpr ExactBackward exact_backward(int64_t hidden, int64_t inter, int topk, int64_t most_rows, DType dtype) {
  const int64_t largest = largest_integer(dtype) / (3 * topk);  // topk is at most 64, so this is at least 1
  const int weight = largest >= 2 ? 2 : 1;
  const int64_t room = largest / weight;
  int64_t first = 1;
  while (first < hidden && (first + 1) * (first + 1) <= room) ++first;
  first = std::min(first, kLongestExactSum / std::max(2 * weight * most_rows, inter));
  return first == 0 ? ExactBackward{} : ExactBackward{weight, first, room / first};
}

// `most_rows` is of an expert.
constexpr BackwardData backward_data_for(int64_t hidden, int64_t inter, int topk, int64_t most_rows, DType dtype,
                                         uint64_t seed, uint64_t launch, Clamped clamped = Clamped::kNo) {
  const ExactBackward exact = exact_backward(hidden, inter, topk, most_rows, dtype);
  DataSpec base;
  const bool is_uniform = launch % 2 == 0 || exact.first == 0 || clamped == Clamped::kYes;
  base.kind = is_uniform ? DataKind::kUniform : DataKind::kExact;
  base.seed = seed;
  base.launch = launch;
  BackwardData data;
  uint64_t tensor = 0;
  for (DataSpec* spec : {&data.x, &data.weights, &data.gate, &data.up, &data.w2, &data.dout, &data.kept}) {
    *spec = base;
    spec->tensor = tensor++;
  }
  if (base.kind == DataKind::kExact) {
    data.weights.magnitude = exact.weight;
    data.kept.scale = 0x1p7f;
    data.dout.scale = 0x1p-14f;  // dup is a multiple of 2^-7, dgate of half of it; dtopk_weight and dw2 are integers
    data.gate.scale = 0x1p8f;
    data.up.scale = 0x1p7f;
  } else {
    data.kept.scale = 4;
    const int64_t rows = std::max(kMostUniformProducts, ceil_div(most_rows, hidden));  // no token is left without any
    data.x.period = column_period_for(most_rows, hidden, rows);
    data.dout.period = data.x.period;
  }
  const bool is_exact = base.kind == DataKind::kExact;
  data.w2.period = column_period_for(hidden, inter, is_exact ? exact.first : kMostUniformProducts);
  data.gate.period = column_period_for(inter, hidden, is_exact ? exact.second : kMostUniformProducts / 2);
  data.up.period = data.gate.period;
  data.first_products = ceil_div(hidden, data.w2.period);
  data.second_products = ceil_div(inter, data.gate.period);
  return data;
}

}  // namespace mk::tools

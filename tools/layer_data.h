// SPDX-License-Identifier: MIT
// tools/layer_data.h — inputs of a layer of experts whose results can be judged.
//
//   kExact     Gates are multiples of 128, where fp32 has silu(g) = max(g, 0) exactly: for g ≥ 128, 1 + exp(-g) is 1;
//              for g ≤ -128 it is beyond the range of fp32.  So a layer can be exact, although silu is no polynomial.
//              With p1 products in a gate and in an up, p2 in a result and weights up to 2, a sum over slots is an
//              integer of at most topk · 2 · p2 · p1²: so many elements of x and w2 are zero that the type holds it.
//   kUniform   Gates lie where silu is curved.  Again most elements of long rows are zero: the worst case of an error
//              grows faster than the sums do, and the bound of layer_judge.h would say nothing of sums of thousands.
//
// The kinds take turns; with a clamp there is only kUniform, whose gates and ups lie on both sides of it.  Zeros are
// elsewhere in each row of x and w2, so that every column of every weight counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/math.h"
#include "data.h"

namespace mk::tools {

struct LayerData {
  DataSpec x;                   // x and weights are of a rank
  DataSpec weights;             // one element a pair
  DataSpec gate;                // [inter, hidden]; gate, up and w2 are of an expert, which is their spec.rank
  DataSpec up;                  // [inter, hidden]
  DataSpec w2;                  // [hidden, inter]
  int64_t first_products = 0;   // in a sum of the first GEMM that may not be zero
  int64_t second_products = 0;  // and of the second
};

// Most products in a sum of kUniform.
constexpr int64_t kMostUniformProducts = 256;

enum class Clamped { kNo, kYes };

constexpr Clamped clamped_by(float clamp) { return clamp > 0 ? Clamped::kYes : Clamped::kNo; }

constexpr LayerData layer_data_for(int64_t hidden, int64_t inter, int topk, DType dtype, uint64_t seed, uint64_t launch,
                                   Clamped clamped = Clamped::kNo) {
  DataSpec base;
  base.kind = launch % 2 == 0 || clamped == Clamped::kYes ? DataKind::kUniform : DataKind::kExact;
  base.seed = seed;
  base.launch = launch;
  uint64_t tensor = 0;
  const auto next = [&] {
    DataSpec spec = base;
    spec.tensor = tensor++;
    return spec;
  };
  LayerData data{.x = next(), .weights = next(), .gate = next(), .up = next(), .w2 = next()};
  int64_t first = kMostUniformProducts;
  int64_t second = kMostUniformProducts;
  if (base.kind == DataKind::kExact) {
    constexpr int kMostWeight = 2;
    const int64_t room = largest_integer(dtype) / (kMostWeight * topk);  // topk is at most 64, so this is at least 2
    for (first = 1; first < hidden && (first + 1) * (first + 1) * (first + 1) <= room;) ++first;
    second = room / (first * first);
    data.weights.magnitude = kMostWeight;
    data.gate.scale = 0x1p7f;
    data.up.scale = 0x1p-7f;
  } else {
    // Products of uniform numbers have a variance of 1/9: a gate's is then below 1.
    const int64_t products = std::min(first, hidden);
    while (static_cast<float>(products) * data.gate.scale * data.gate.scale > 9) data.gate.scale /= 2;
  }
  data.x.period = period_for(hidden, first);
  data.w2.period = period_for(inter, second);
  data.first_products = ceil_div<int64_t>(hidden, data.x.period);
  data.second_products = ceil_div<int64_t>(inter, data.w2.period);
  return data;
}

// Weights of so many pairs of a rank.
inline std::vector<float> weights_of(const DataSpec& spec, int rank, size_t pairs) {
  const DataSpec own = of(spec, rank);
  const uint64_t key = key_of(own);
  std::vector<float> weights(pairs);
  for (size_t pair = 0; pair < pairs; ++pair) weights[pair] = value_at(own, key, pair);
  return weights;
}

}  // namespace mk::tools

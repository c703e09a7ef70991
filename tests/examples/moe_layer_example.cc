// SPDX-License-Identifier: MIT
// tests/examples/moe_layer_example.cc — a whole layer of experts and its gradients, with the public header only.
//
// Two nodes of two ranks have four experts.  Token t of every rank is all ones and goes to experts t % 4 and (t + 1) %
// 4 with weights 0.25 and 0.75.  In expert e every gate is large, so that silu lets it through, and w2 is e + 1 times
// the same, so that an element of its result is known.  The gradient of all results is one: that of a pair's weight is
// then the sum over a row of its expert's result, also known.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "mkernel/mkernel.h"

namespace {

constexpr mk::MoeLayerShape kShape{
    .hidden = 32, .inter = 16, .experts = 4, .topk = 2, .max_tokens = 50, .max_rows = 4 * 50 * 2};

struct RankData {
  std::vector<float> x, weights, w13, w2, out, kept;
  std::vector<float> dout, dx, dweights, dw13, dw2;
  std::vector<int64_t> ids;
};

mk::Tensor tensor(std::vector<float>& values, int64_t rows, int64_t cols) {
  return {values.data(), mk::DType::kFp32, rows, cols};
}

bool run_backward(mk::World& world, const std::vector<mk::MoeLayerArgs>& forward, std::vector<RankData>& data) {
  std::vector<mk::MoeLayerBackwardArgs> args;
  for (size_t rank = 0; rank < data.size(); ++rank) {
    RankData& d = data[rank];
    const int64_t tokens = forward[rank].x.rows;
    d.dout.assign(d.x.size(), 1.0f);
    d.dx.resize(d.x.size());
    d.dweights.resize(d.weights.size());
    d.dw13.resize(d.w13.size());
    d.dw2.resize(d.w2.size());
    args.push_back({.x = forward[rank].x,
                    .topk_idx = forward[rank].topk_idx,
                    .topk_weight = forward[rank].topk_weight,
                    .w13 = forward[rank].w13,
                    .w2 = forward[rank].w2,
                    .kept = forward[rank].kept,
                    .dout = tensor(d.dout, tokens, kShape.hidden),
                    .dx = tensor(d.dx, tokens, kShape.hidden),
                    .dtopk_weight = d.dweights.data(),
                    .dw13 = tensor(d.dw13, 2 * kShape.inter, kShape.hidden),
                    .dw2 = tensor(d.dw2, kShape.hidden, kShape.inter)});
  }

  moe_layer_backward(world, kShape, args);
  world.synchronize();

  for (const RankData& d : data) {
    for (size_t pair = 0; pair < d.dweights.size(); ++pair) {
      const double expert = static_cast<double>(d.ids[pair]);
      const double row = (expert + 1) * kShape.inter * kShape.hidden * kShape.hidden;  // its elements, all equal
      if (std::fabs(d.dweights[pair] - row) > 1e-3 * row) return false;
    }
  }
  return true;
}

bool run(mk::World& world) {
  std::vector<RankData> data(world.size());
  std::vector<mk::MoeLayerArgs> args;
  for (int rank = 0; rank < world.size(); ++rank) {
    RankData& d = data[rank];
    const int64_t tokens = 50 - 10 * rank;  // every rank may bring another number, and another one in each launch
    d.x.assign(tokens * kShape.hidden, 1.0f);
    for (int64_t token = 0; token < tokens; ++token) {
      d.ids.insert(d.ids.end(), {token % 4, (token + 1) % 4});
      d.weights.insert(d.weights.end(), {0.25f, 0.75f});
    }
    d.w13.assign(kShape.inter * kShape.hidden, 1.0f);                               // gates: 32 each
    d.w13.insert(d.w13.end(), kShape.inter * kShape.hidden, 1.0f / kShape.hidden);  // ups: 1 each
    d.w2.assign(kShape.hidden * kShape.inter, static_cast<float>(rank + 1));        // expert e is on rank e
    d.out.resize(tokens * kShape.hidden);
    d.kept.resize(kShape.max_rows * 2 * kShape.inter);
    args.push_back({.x = tensor(d.x, tokens, kShape.hidden),
                    .topk_idx = {d.ids.data()},
                    .topk_weight = d.weights.data(),
                    .w13 = tensor(d.w13, 2 * kShape.inter, kShape.hidden),
                    .w2 = tensor(d.w2, kShape.hidden, kShape.inter),
                    .out = tensor(d.out, tokens, kShape.hidden),
                    .kept = tensor(d.kept, kShape.max_rows, 2 * kShape.inter)});  // for the backward pass
  }

  moe_layer(world, kShape, args);  // returns at once
  world.synchronize();             // throws mk::Error if a rank failed, or if rows do not fit

  for (const RankData& d : data) {
    for (size_t i = 0; i < d.out.size(); ++i) {
      const auto token = static_cast<int64_t>(i / kShape.hidden);
      const double weights = 0.25 * (token % 4 + 1) + 0.75 * ((token + 1) % 4 + 1);
      if (std::fabs(d.out[i] - weights * kShape.inter * kShape.hidden) > 1e-2) return false;
    }
  }
  return run_backward(world, args, data);
}

}  // namespace

int main() {
  mk::World world = mk::World::local(2, 2, mk::DeviceKind::kCpu);
  const bool is_right = run(world);
  std::puts(is_right ? "moe_layer: right" : "moe_layer: WRONG");
  return is_right ? 0 : 1;
}

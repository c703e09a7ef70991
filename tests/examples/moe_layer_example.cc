// SPDX-License-Identifier: MIT
// tests/examples/moe_layer_example.cc — a whole layer of experts, with the public header only.
//
// Two nodes of two ranks have four experts.  Token t of every rank is all ones and goes to experts t % 4 and (t + 1) %
// 4 with weights 0.25 and 0.75.  In expert e every gate is large, so that silu lets it through, and w2 is e + 1 times
// the same, so that an element of its result is known.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "mkernel/mkernel.h"

namespace {

constexpr mk::MoeLayerShape kShape{
    .hidden = 32, .inter = 16, .experts = 4, .topk = 2, .max_tokens = 50, .max_rows = 4 * 50 * 2};

struct RankData {
  std::vector<float> x, weights, w13, w2, out;
  std::vector<int64_t> ids;
};

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
    args.push_back({.x = {d.x.data(), mk::DType::kFp32, tokens, kShape.hidden},
                    .topk_idx = {d.ids.data()},
                    .topk_weight = d.weights.data(),
                    .w13 = {d.w13.data(), mk::DType::kFp32, 2 * kShape.inter, kShape.hidden},
                    .w2 = {d.w2.data(), mk::DType::kFp32, kShape.hidden, kShape.inter},
                    .out = {d.out.data(), mk::DType::kFp32, tokens, kShape.hidden}});
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
  return true;
}

}  // namespace

int main() {
  mk::World world = mk::World::local(2, 2, mk::DeviceKind::kCpu);
  const bool is_right = run(world);
  std::puts(is_right ? "moe_layer: right" : "moe_layer: WRONG");
  return is_right ? 0 : 1;
}

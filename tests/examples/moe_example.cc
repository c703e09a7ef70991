// SPDX-License-Identifier: MIT
// tests/examples/moe_example.cc — MoE dispatch+GEMM, with the public header only.
//
// Two nodes of two ranks have eight experts, two each.  Token t of rank r is all r + 1, goes to experts t % 8 and
// (t + 3) % 8, and expert e multiplies by e + 1.  So a row of y that came from rank r is k · (r + 1) · (e + 1).
#include <cstdint>
#include <cstdio>
#include <vector>

#include "mkernel/mkernel.h"

namespace {

constexpr mk::MoeShape kShape{
    .hidden = 64, .n = 32, .experts = 8, .topk = 2, .max_tokens = 100, .max_rows = 4 * 100 * 2};
constexpr int kLocalExperts = 2;

struct RankData {
  std::vector<float> x, w, y;
  std::vector<int64_t> ids;
  std::vector<int32_t> origins, ends;
};

bool run(mk::World& world) {
  std::vector<RankData> data(world.size());
  std::vector<mk::MoeDispatchGemmArgs> args;
  for (int rank = 0; rank < world.size(); ++rank) {
    RankData& d = data[rank];
    const int64_t tokens = 100 - 33 * rank;  // every rank may bring another number, and another one in each launch
    d.x.assign(tokens * kShape.hidden, static_cast<float>(rank + 1));
    for (int64_t token = 0; token < tokens; ++token) {
      d.ids.push_back(token % 8);
      d.ids.push_back((token + 3) % 8);
    }
    for (int expert = kLocalExperts * rank; expert < kLocalExperts * (rank + 1); ++expert) {
      d.w.insert(d.w.end(), kShape.hidden * kShape.n, static_cast<float>(expert + 1));
    }
    d.y.resize(kShape.max_rows * kShape.n);
    d.origins.resize(kShape.max_rows * 4);
    d.ends.resize(kLocalExperts);
    args.push_back({.x = {d.x.data(), mk::DType::kFp32, tokens, kShape.hidden},
                    .topk_idx = {d.ids.data()},
                    .w = {d.w.data(), mk::DType::kFp32, kLocalExperts * kShape.hidden, kShape.n},
                    .y = {d.y.data(), mk::DType::kFp32, kShape.max_rows, kShape.n},
                    .origins = d.origins.data(),
                    .expert_ends = d.ends.data()});
  }

  moe_dispatch_gemm(world, kShape, args);  // returns at once
  world.synchronize();                     // throws mk::Error if a rank failed, or if rows do not fit

  for (int rank = 0; rank < world.size(); ++rank) {
    const RankData& d = data[rank];
    int64_t row = 0;
    for (int i = 0; i < kLocalExperts; ++i) {
      for (; row < d.ends[i]; ++row) {
        const int from = d.origins[row * 4 + 1];
        const float expected = static_cast<float>(kShape.hidden * (from + 1) * (kLocalExperts * rank + i + 1));
        for (int64_t col = 0; col < kShape.n; ++col) {
          if (d.y[row * kShape.n + col] != expected) return false;
        }
      }
    }
    std::printf("rank %d: %lld rows, every element is right\n", rank, static_cast<long long>(row));
  }
  return true;
}

}  // namespace

int main() {
  try {
    mk::World world = mk::World::local(2, 2, mk::DeviceKind::kCpu, mk::Options::from_env());
    std::printf("workspace: %lld bytes a rank\n",
                static_cast<long long>(moe_dispatch_gemm_workspace_bytes(world, kShape, mk::DType::kFp32)));
    return run(world) ? 0 : 1;
  } catch (const mk::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

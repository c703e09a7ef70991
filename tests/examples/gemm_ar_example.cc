// SPDX-License-Identifier: MIT
// tests/examples/gemm_ar_example.cc — GEMM+AllReduce from the first line to the last, with the public header only.
//
// Two nodes of two ranks share a long K.  Every rank multiplies its slice; the products are summed and
// every rank gets the whole sum.  Here A of rank r is all r + 1 and B is all ones, so every element
// of C is k · (1 + 2 + 3 + 4).
#include <cstdio>
#include <vector>

#include "mkernel/mkernel.h"

namespace {

constexpr int kNodes = 2;
constexpr int kRanks = 2;
constexpr int64_t kM = 256;  // rows of the whole result
constexpr int64_t kN = 96;
constexpr int64_t kK = 64;  // of one rank

struct RankData {
  std::vector<float> a, b, c;
};

int run() {
  mk::World world = mk::World::local(kNodes, kRanks, mk::DeviceKind::kCpu, mk::Options::from_env());
  std::printf("workspace: %lld bytes a rank\n",
              static_cast<long long>(mk::gemm_ar_workspace_bytes(world, kM, kN, kK, mk::DType::kFp32)));

  // The caller owns all memory; a Tensor only points to it.
  std::vector<RankData> data(world.size());
  std::vector<mk::GemmArgs> args;
  for (int rank = 0; rank < world.size(); ++rank) {
    RankData& d = data[rank];
    d.a.assign(kM * kK, static_cast<float>(rank + 1));
    d.b.assign(kN * kK, 1.0f);
    d.c.assign(kM * kN, -1.0f);
    args.push_back({.a = {d.a.data(), mk::DType::kFp32, kM, kK},
                    .b = {d.b.data(), mk::DType::kFp32, kN, kK},
                    .c = {d.c.data(), mk::DType::kFp32, kM, kN},
                    .b_order = mk::BOrder::kNK});  // as a linear layer keeps its weight
  }

  mk::gemm_ar(world, args);  // returns at once
  world.synchronize();       // throws mk::Error if a rank failed

  const int ranks = world.size();
  const float expected = static_cast<float>(kK * ranks * (ranks + 1) / 2);
  for (const RankData& d : data) {
    for (const float x : d.c) {
      if (x != expected) return 1;
    }
  }
  std::printf("every element is right\n");
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const mk::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

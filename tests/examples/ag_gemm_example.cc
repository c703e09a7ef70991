// SPDX-License-Identifier: MIT
// tests/examples/ag_gemm_example.cc — AllGather+GEMM from the first line to the last, with the public header only.
//
// Two nodes of two ranks.  Every rank brings a shard of A and its own B and gets the rows of all shards
// times its B.  Here A is all ones and B of rank r is all r + 1, so every element of C is k · (r + 1).
#include <cstdio>
#include <vector>

#include "mkernel/mkernel.h"

namespace {

constexpr int kNodes = 2;
constexpr int kRanks = 2;
constexpr int64_t kM = 256;  // rows of all ranks together
constexpr int64_t kN = 96;
constexpr int64_t kK = 64;

struct RankData {
  std::vector<float> a, b, c;
};

int run() {
  // Options::from_env() lets MKERNEL_TIMEOUT and MKERNEL_RING_CAPACITY have their say.
  mk::World world = mk::World::local(kNodes, kRanks, mk::DeviceKind::kCpu, mk::Options::from_env());
  std::printf("workspace: %lld bytes a rank\n",
              static_cast<long long>(mk::ag_gemm_workspace_bytes(world, kM, kN, kK, mk::DType::kFp32)));

  // The caller owns all memory; a Tensor only points to it.
  std::vector<RankData> data(world.size());
  std::vector<mk::AgGemmArgs> args;
  for (int rank = 0; rank < world.size(); ++rank) {
    const int64_t shard = kM / world.size();
    RankData& d = data[rank];
    d.a.assign(shard * kK, 1.0f);
    d.b.assign(kK * kN, static_cast<float>(rank + 1));
    d.c.assign(kM * kN, -1.0f);
    args.push_back({.a = {d.a.data(), mk::DType::kFp32, shard, kK},
                    .b = {d.b.data(), mk::DType::kFp32, kK, kN},
                    .c = {d.c.data(), mk::DType::kFp32, kM, kN}});
  }

  mk::ag_gemm(world, args);  // returns at once
  world.synchronize();       // throws mk::Error if a rank failed

  for (int rank = 0; rank < world.size(); ++rank) {
    for (const float x : data[rank].c) {
      if (x != static_cast<float>(kK * (rank + 1))) return 1;
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

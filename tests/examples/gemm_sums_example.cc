// SPDX-License-Identifier: MIT
// tests/examples/gemm_sums_example.cc — GEMM+ReduceScatter and GEMM+AllReduce, with the public header only.
//
// Two nodes of two ranks share a long K.  Every rank multiplies its slice, and the products are summed: by
// gemm_rs each rank gets its rows of the sum, by gemm_ar every rank gets all of it.  Both take the same
// arguments but for the rows of C.  Here A of rank r is all r + 1 and B is all ones, so every element of C
// is k · (1 + 2 + 3 + 4).
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "mkernel/mkernel.h"

namespace {

constexpr int kNodes = 2;
constexpr int kRanks = 2;
constexpr int64_t kM = 256;  // rows of the whole result
constexpr int64_t kN = 96;
constexpr int64_t kK = 64;  // of one rank

struct Sum {
  const char* name;
  int64_t rows_of_c;
  int64_t (*workspace_bytes)(const mk::World&);
  void (*call)(mk::World&, std::span<const mk::GemmArgs>);
};

constexpr Sum kSums[] = {
    {"gemm_rs", kM / (kNodes * kRanks),
     [](const mk::World& world) { return gemm_rs_workspace_bytes(world, kM, kN, kK, mk::DType::kFp32); },
     [](mk::World& world, std::span<const mk::GemmArgs> args) { gemm_rs(world, args); }},
    {"gemm_ar", kM, [](const mk::World& world) { return gemm_ar_workspace_bytes(world, kM, kN, kK, mk::DType::kFp32); },
     [](mk::World& world, std::span<const mk::GemmArgs> args) { gemm_ar(world, args); }},
};

struct RankData {
  std::vector<float> a, b, c;
};

bool run(const Sum& sum, mk::World& world) {
  std::printf("%s, workspace: %lld bytes a rank\n", sum.name, static_cast<long long>(sum.workspace_bytes(world)));

  // The caller owns all memory; a Tensor only points to it.
  std::vector<RankData> data(world.size());
  std::vector<mk::GemmArgs> args;
  for (int rank = 0; rank < world.size(); ++rank) {
    RankData& d = data[rank];
    d.a.assign(kM * kK, static_cast<float>(rank + 1));
    d.b.assign(kN * kK, 1.0f);
    d.c.assign(sum.rows_of_c * kN, -1.0f);
    args.push_back({.a = {d.a.data(), mk::DType::kFp32, kM, kK},
                    .b = {d.b.data(), mk::DType::kFp32, kN, kK},
                    .c = {d.c.data(), mk::DType::kFp32, sum.rows_of_c, kN},
                    .b_order = mk::BOrder::kNK});  // as a linear layer keeps its weight
  }

  sum.call(world, args);  // returns at once
  world.synchronize();    // throws mk::Error if a rank failed

  const int ranks = world.size();
  const float expected = static_cast<float>(kK * ranks * (ranks + 1) / 2);
  for (const RankData& d : data) {
    for (const float x : d.c) {
      if (x != expected) return false;
    }
  }
  std::printf("every element is right\n");
  return true;
}

}  // namespace

int main() {
  try {
    mk::World world = mk::World::local(kNodes, kRanks, mk::DeviceKind::kCpu, mk::Options::from_env());
    for (const Sum& sum : kSums) {
      if (!run(sum, world)) return 1;
    }
    return 0;
  } catch (const mk::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

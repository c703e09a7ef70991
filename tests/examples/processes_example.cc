// SPDX-License-Identifier: MIT
// tests/examples/processes_example.cc — a world of four processes, with the public header only.
//
// Rank 0 makes an id; here fork spreads it, on a cluster a launcher does.  Every process joins with its rank and
// passes the arguments of that rank alone.  A is all ones and B of rank r is all r + 1, so every element of C is
// k · (r + 1).
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "mkernel/mkernel.h"

namespace {

constexpr int kRanks = 4;
constexpr int64_t kM = 256;  // rows of all ranks together
constexpr int64_t kN = 96;
constexpr int64_t kK = 64;

bool run(const std::string& id, int rank) {
  mk::World world = mk::World::join(id, rank, /*nodes=*/1, /*ranks_per_node=*/kRanks);
  const int64_t shard = kM / world.size();
  std::vector<float> a(shard * kK, 1.0f), b(kK * kN, static_cast<float>(rank + 1)), c(kM * kN, -1.0f);
  const mk::AgGemmArgs args{.a = {a.data(), mk::DType::kFp32, shard, kK},
                            .b = {b.data(), mk::DType::kFp32, kK, kN},
                            .c = {c.data(), mk::DType::kFp32, kM, kN}};
  mk::ag_gemm(world, {&args, 1});
  world.synchronize();
  for (const float x : c) {
    if (x != static_cast<float>(kK * (rank + 1))) return false;
  }
  return true;
}

int run_rank(const std::string& id, int rank) {
  try {
    return run(id, rank) ? 0 : 1;
  } catch (const mk::Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return 1;
  }
}

}  // namespace

int main() {
  const std::string id = mk::World::unique_id();
  for (int rank = 1; rank < kRanks; ++rank) {
    if (fork() == 0) _exit(run_rank(id, rank));
  }
  bool right = run_rank(id, 0) == 0;
  for (int rank = 1; rank < kRanks; ++rank) {
    int status = 0;
    wait(&status);
    right = right && status == 0;
  }
  if (right) std::printf("every element is right\n");
  return right ? 0 : 1;
}

// SPDX-License-Identifier: MIT
// bench/baseline.h — what a fused operator is compared with: cuBLAS and host-driven transfers.
#pragma once

#include <memory>

#include "bench/cublas_gemm.h"
#include "bench/operands.h"
#include "bench/rig.h"
#include "tools/judge.h"

namespace mk::bench {

enum class Schedule {
  kSerial,      // all transfers, then the products; or the other way round
  kOverlapped,  // chunk by chunk, transfers of one beside the products of another
};

enum class Placement {
  kBackToBack,  // one rank's product after the other's, each on the whole GPU
  kSideBySide,  // a stream a rank
};

// Chunk counts that are tried; the fastest is kept.
constexpr int kChunkCounts[] = {1, 2, 4, 8};

class Baseline {
 public:
  virtual ~Baseline() = default;

  // Lets cuBLAS choose for every product of every chunk count.
  virtual void prepare() = 0;

  // Queues a run on the rig.
  virtual void queue_products(int set, Placement placement) = 0;
  virtual void queue(int set, Schedule schedule, int num_chunks) = 0;

  // What lies between inputs and outputs becomes NaN.
  virtual void poison() = 0;

  // Judges the outputs of the last run, which was of that set.
  virtual tools::CheckResult check(int set) = 0;
};

std::unique_ptr<Baseline> make_ag_gemm_baseline(Rig& rig, const BenchCase& bench_case, Operands& operands);

// gemm_rs and gemm_ar.
std::unique_ptr<Baseline> make_reduce_baseline(Rig& rig, const BenchCase& bench_case, Operands& operands);

inline std::unique_ptr<Baseline> make_baseline(Rig& rig, const BenchCase& bench_case, Operands& operands) {
  return bench_case.op == OpKind::kAgGemm ? make_ag_gemm_baseline(rig, bench_case, operands)
                                          : make_reduce_baseline(rig, bench_case, operands);
}

// Judges outputs of ag_gemm, whoever made them.
tools::CheckResult check_ag_gemm(const BenchCase& bench_case, Operands& operands, runtime::Device& device, int set);

}  // namespace mk::bench

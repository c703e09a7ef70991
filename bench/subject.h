// SPDX-License-Identifier: MIT
// bench/subject.h — one problem of one operator: the fused operator and its baselines, on inputs in several sets.
#pragma once

#include <memory>
#include <span>

#include "bench/baseline.h"
#include "bench/pace.h"
#include "mkernel/options.h"

namespace mk::bench {

struct FusedOptions {
  const Split& split;
  bool is_paced = false;            // only those kernels have a warp that plays the NIC
  std::span<const RankPace> paces;  // by rank
};

class Subject {
 public:
  virtual ~Subject() = default;

  virtual Baseline& baseline() = 0;

  // Outputs of a set become NaN.
  virtual void poison(int set) = 0;

  // Queues one launch on every rank's own stream.
  virtual void launch_fused(int set, const FusedOptions& options) = 0;

  // Judges what it left.
  virtual tools::CheckResult check_fused(int set) = 0;
};

std::unique_ptr<Subject> make_gemm_subject(Rig& rig, const BenchCase& bench_case);
std::unique_ptr<Subject> make_moe_subject(Rig& rig, const BenchCase& bench_case);
std::unique_ptr<Subject> make_attention_subject(Rig& rig, const BenchCase& bench_case);

inline std::unique_ptr<Subject> make_subject(Rig& rig, const BenchCase& bench_case) {
  if (bench_case.op == OpKind::kRingAttention) return make_attention_subject(rig, bench_case);
  return is_moe(bench_case.op) ? make_moe_subject(rig, bench_case) : make_gemm_subject(rig, bench_case);
}

}  // namespace mk::bench

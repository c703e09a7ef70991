// SPDX-License-Identifier: MIT
// bench/gemm_subject.cc — the operators with M, N and K, to be timed.
#include "bench/fused.h"
#include "bench/subject.h"

namespace mk::bench {
namespace {

class GemmSubject : public Subject {
 public:
  GemmSubject(Rig& rig, const BenchCase& bench_case)
      : world_(rig.world()),
        case_(bench_case),
        operands_(bench_case, world_.device(), kInputSets),
        baseline_(make_baseline(rig, case_, operands_)) {}

  Baseline& baseline() override { return *baseline_; }
  void poison(int set) override { operands_.poison(set); }

  void launch_fused(int set, const FusedOptions& options) override {
    const FusedOperator& fused = fused_operator(case_.op);
    const auto launch = options.is_paced ? fused.launch_paced : fused.launch;
    launch({world_, case_, options.split, operands_.set(set), options.paces});
  }
  tools::CheckResult check_fused(int set) override {
    return fused_operator(case_.op).check(case_, operands_, world_.device(), set);
  }

 private:
  runtime::WorldState& world_;
  const BenchCase case_;
  Operands operands_;
  std::unique_ptr<Baseline> baseline_;
};

}  // namespace

std::unique_ptr<Subject> make_gemm_subject(Rig& rig, const BenchCase& bench_case) {
  return std::make_unique<GemmSubject>(rig, bench_case);
}

}  // namespace mk::bench

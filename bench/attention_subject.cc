// SPDX-License-Identifier: MIT
// bench/attention_subject.cc — ring attention, to be timed.
#include "bench/attention_sets.h"
#include "bench/baseline_attention.h"
#include "bench/paced_attention.h"
#include "bench/paced_split.h"
#include "bench/subject.h"
#include "ops/attention/ring_attention_targets.h"

namespace mk::bench {
namespace {

class AttentionSubject : public Subject {
 public:
  AttentionSubject(Rig& rig, const BenchCase& bench_case)
      : world_(rig.world()),
        case_(bench_case),
        problem_(attention_problem(bench_case)),
        operands_(bench_case, world_.device()),
        baseline_(make_attention_baseline(rig, case_, operands_)) {
    attention::check_problem(problem_, DeviceKind::kCuda);
  }

  Baseline& baseline() override { return *baseline_; }
  void poison(int set) override { operands_.poison(set); }
  tools::CheckResult check_fused(int set) override { return operands_.check(set); }

  void launch_fused(int set, const FusedOptions& options) override {
    const Roster chosen = attention::choose_roles(problem_, options.split, seats_of(world_.device()));
    const Split split = paced_split(case_.world, options.split, attention::Layout::kRoles, chosen);
    const runtime::Plan& plan = attention::plan_for(world_, problem_, split);
    world_.expect_commands();
    for (int rank = 0; rank < case_.world.size(); ++rank) {
      const AttentionRankTensors& own = operands_.set(set)[rank];
      const RingAttentionArgs args{.q = own.q, .k = own.k, .v = own.v, .o = own.o, .lse = own.lse};
      if (options.is_paced) {
        launch_paced(world_, plan, rank, problem_, args, options.paces[rank]);
      } else {
        attention::launch_rank(world_, plan, rank, problem_, args);
      }
    }
  }

 private:
  runtime::WorldState& world_;
  const BenchCase case_;
  const attention::Problem problem_;
  AttentionSets operands_;
  std::unique_ptr<Baseline> baseline_;
};

}  // namespace

std::unique_ptr<Subject> make_attention_subject(Rig& rig, const BenchCase& bench_case) {
  return std::make_unique<AttentionSubject>(rig, bench_case);
}

}  // namespace mk::bench

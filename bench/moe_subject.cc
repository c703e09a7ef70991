// SPDX-License-Identifier: MIT
// bench/moe_subject.cc — the mixtures of experts, to be timed.
#include "bench/baseline_moe.h"
#include "bench/paced_moe.h"
#include "bench/paced_split.h"
#include "bench/subject.h"
#include "ops/moe/moe_layer_targets.h"
#include "ops/moe/moe_targets.h"

namespace mk::bench {
namespace {

class MoeSubject : public Subject {
 public:
  MoeSubject(Rig& rig, const BenchCase& bench_case)
      : world_(rig.world()),
        case_(bench_case),
        operands_(bench_case, world_.device()),
        origins_(world_.device(), case_.world.size() * operands_.max_rows() * sizeof(MoeOrigin)),
        baseline_(make_moe_baseline(rig, case_, operands_)) {}

  Baseline& baseline() override { return *baseline_; }
  void poison(int set) override { operands_.poison(set); }

  void launch_fused(int set, const FusedOptions& options) override {
    if (case_.op == OpKind::kMoeLayer) {
      launch<MoeLayerArgs>(set, options, plan_layer(options), [](const MoeRankTensors& own, int) {
        return MoeLayerArgs{
            .x = own.x, .topk_idx = {own.ids}, .topk_weight = own.weights, .w13 = own.w13, .w2 = own.w2, .out = own.y};
      });
    } else {
      launch<MoeDispatchGemmArgs>(set, options, plan_dispatch(options), [&](const MoeRankTensors& own, int rank) {
        MoeOrigin* const origins = origins_.as<MoeOrigin>() + rank * operands_.max_rows();
        return MoeDispatchGemmArgs{.x = own.x,
                                   .topk_idx = {own.ids},
                                   .topk_weight = own.weights,
                                   .w = own.w,
                                   .y = own.y,
                                   .origins = reinterpret_cast<int32_t*>(origins)};
      });
    }
  }

  tools::CheckResult check_fused(int set) override {
    if (case_.op == OpKind::kMoeLayer) return operands_.check_layer(set, {});
    const tools::MoePairs& pairs = operands_.pairs(set);
    return operands_.check_rows(set, [&](int rank, int expert) -> const std::vector<tools::MoePair>& {
      return pairs.of_expert(rank * pairs.local_experts() + expert);
    });
  }

 private:
  // `summing` is the role that sums, if any.
  Split split_for(const FusedOptions& options, moe::Sums sums) const {
    const Roster chosen =
        moe::choose_roles(name_of(case_.op), case_.world, options.split, seats_of(world_.device()), sums);
    return paced_split(case_.world, options.split, moe::Layout::kRoles, chosen, sums == moe::Sums::kYes ? "send" : "");
  }

  const runtime::Plan& plan_dispatch(const FusedOptions& options) {
    const MoeShape shape{.hidden = case_.k,
                         .n = case_.n,
                         .experts = case_.moe.experts,
                         .topk = case_.moe.topk,
                         .max_tokens = case_.moe.tokens,
                         .max_rows = operands_.max_rows()};
    const moe::Problem problem{case_.world, shape, case_.dtype};
    moe::check_problem(problem, DeviceKind::kCuda);
    return moe::plan_for(world_, problem, split_for(options, moe::Sums::kNo));
  }

  // Those that send also sum results of tokens that came from other nodes.
  const runtime::Plan& plan_layer(const FusedOptions& options) {
    const MoeLayerShape shape{.hidden = case_.k,
                              .inter = case_.n,
                              .experts = case_.moe.experts,
                              .topk = case_.moe.topk,
                              .max_tokens = case_.moe.tokens,
                              .max_rows = operands_.max_rows()};
    const moe::LayerProblem problem{case_.world, shape, case_.dtype};
    moe::check_layer(problem, DeviceKind::kCuda);
    return moe::plan_for(world_, problem, split_for(options, moe::Sums::kYes));
  }

  template <class Args, class Make>
  void launch(int set, const FusedOptions& options, const runtime::Plan& plan, const Make& make) {
    world_.expect_commands();
    for (int rank = 0; rank < case_.world.size(); ++rank) {
      const Args args = make(operands_.set(set)[rank], rank);
      if (options.is_paced) {
        launch_paced(world_, plan, rank, args, options.paces[rank]);
      } else {
        moe::launch_rank(world_, plan, rank, args);
      }
    }
  }

  runtime::WorldState& world_;
  const BenchCase case_;
  MoeSets operands_;
  runtime::Buffer origins_;  // a caller of dispatch+GEMM asks for them
  std::unique_ptr<Baseline> baseline_;
};

}  // namespace

std::unique_ptr<Subject> make_moe_subject(Rig& rig, const BenchCase& bench_case) {
  return std::make_unique<MoeSubject>(rig, bench_case);
}

}  // namespace mk::bench

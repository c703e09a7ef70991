// SPDX-License-Identifier: MIT
// bench/fused.cc — see fused.h.
#include "bench/fused.h"

#include "bench/baseline.h"
#include "bench/paced_kernels.h"
#include "bench/paced_split.h"
#include "ops/ag_gemm/ag_gemm_targets.h"
#include "ops/gemm_ar/gemm_ar_targets.h"
#include "ops/gemm_rs/gemm_rs_targets.h"
#include "ops/split.h"

namespace mk::bench {
namespace {

// Calls launch(rank, args) for every rank.
template <class Args, class Launch>
void for_each_rank(const FusedRun& run, Launch&& launch) {
  run.world.expect_commands();
  for (int rank = 0; rank < run.shape.world.size(); ++rank) {
    const RankTensors& own = run.tensors[rank];
    launch(rank, Args{.a = own.a, .b = own.b, .c = own.c});
  }
}

Split paced_split(const FusedRun& run, std::span<const RoleName> names, const Roster& chosen) {
  return bench::paced_split(run.shape.world, run.split, names, chosen);
}

const runtime::Plan& plan_ag_gemm(const FusedRun& run) {
  const ag_gemm_op::Problem problem{run.shape.world, run.shape.m, run.shape.n, run.shape.k, run.shape.dtype};
  ag_gemm_op::check_problem(problem, DeviceKind::kCuda);
  const Seats seats = seats_of(run.world.device());
  return ag_gemm_op::plan_for(
      run.world, problem,
      {.split = paced_split(run, ag_gemm_op::Layout::kRoles, ag_gemm_op::choose_roles(problem, run.split, seats))});
}

gemm::Problem sum_problem(const FusedRun& run) {
  return {run.shape.world, run.shape.m, run.shape.n, run.shape.k, run.shape.dtype};
}

const runtime::Plan& plan_gemm_rs(const FusedRun& run) {
  gemm_rs_op::check_problem(sum_problem(run), DeviceKind::kCuda);
  const Seats seats = seats_of(run.world.device());
  const Roster roles = gemm_rs_op::choose_roles(sum_problem(run), run.split, seats);
  return gemm_rs_op::plan_for(run.world, sum_problem(run), paced_split(run, gemm_rs_op::Layout::kRoles, roles));
}

AllReducePath path_of(const FusedRun& run) { return gemm_ar_op::path_for(sum_problem(run), AllReducePath::kAuto); }

const runtime::Plan& plan_gemm_ar(const FusedRun& run) {
  gemm_ar_op::check_problem(sum_problem(run), path_of(run), DeviceKind::kCuda);
  const Seats seats = seats_of(run.world.device());
  const Roster roles = gemm_ar_op::choose_roles(sum_problem(run), path_of(run), run.split, seats);
  return gemm_ar_op::plan_for(run.world, sum_problem(run), path_of(run),
                              paced_split(run, gemm_ar_op::roles_of(path_of(run)), roles));
}

void launch_ag_gemm(const FusedRun& run) {
  const runtime::Plan& plan = plan_ag_gemm(run);
  for_each_rank<AgGemmArgs>(
      run, [&](int rank, const AgGemmArgs& args) { ag_gemm_op::launch_rank(run.world, plan, rank, args); });
}

void launch_ag_gemm_paced(const FusedRun& run) {
  const runtime::Plan& plan = plan_ag_gemm(run);
  for_each_rank<AgGemmArgs>(run, [&](int rank, const AgGemmArgs& args) {
    launch_paced<ag_gemm_op::Layout>(run.world, plan, rank, gemm::operands_of(args), run.paces[rank]);
  });
}

void launch_gemm_rs(const FusedRun& run) {
  const runtime::Plan& plan = plan_gemm_rs(run);
  for_each_rank<GemmArgs>(
      run, [&](int rank, const GemmArgs& args) { gemm_rs_op::launch_rank(run.world, plan, rank, args); });
}

void launch_gemm_rs_paced(const FusedRun& run) {
  const runtime::Plan& plan = plan_gemm_rs(run);
  for_each_rank<GemmArgs>(run, [&](int rank, const GemmArgs& args) {
    launch_paced<gemm_rs_op::Layout>(run.world, plan, rank, gemm::operands_of(args), run.paces[rank]);
  });
}

void launch_gemm_ar(const FusedRun& run) {
  const runtime::Plan& plan = plan_gemm_ar(run);
  for_each_rank<GemmArgs>(
      run, [&](int rank, const GemmArgs& args) { gemm_ar_op::launch_rank(run.world, plan, path_of(run), rank, args); });
}

void launch_gemm_ar_paced(const FusedRun& run) {
  const runtime::Plan& plan = plan_gemm_ar(run);
  for_each_rank<GemmArgs>(run, [&](int rank, const GemmArgs& args) {
    const auto launch = path_of(run) == AllReducePath::kOneShot ? launch_paced<gemm_ar_op::OneShotLayout>
                                                                : launch_paced<gemm_ar_op::TwoShotLayout>;
    launch(run.world, plan, rank, gemm::operands_of(args), run.paces[rank]);
  });
}

// Every element against fp64; where every rank has all rows, the others against the first, bit by bit.
tools::CheckResult check_sum(const BenchCase& shape, Operands& operands, runtime::Device& device, int set) {
  const int ranks = shape.world.size();
  const OwnedTensor a(device, shape.dtype, ranks * shape.m, shape.k);
  const OwnedTensor b(device, shape.dtype, ranks * shape.k, shape.n);
  const auto part = [&](const OwnedTensor& whole, int rank, int64_t rows, int64_t cols) {
    return Tensor{whole.memory.as() + rank * rows * cols * size_of(shape.dtype), shape.dtype, rows, cols};
  };
  for (int rank = 0; rank < ranks; ++rank) {
    operands.remake_a(set, rank, part(a, rank, shape.m, shape.k));
    operands.remake_b(set, rank, part(b, rank, shape.k, shape.n));
  }
  const tools::Hops hops = ranks == 1 ? tools::Hops{}
                                      : tools::hops_of(shape.dtype, ranks, shape.world.nodes > 1 ? 2 : 1,
                                                       shape.world.ranks + shape.world.nodes);
  tools::CheckResult worst;
  for (int rank = 0; rank < ranks; ++rank) {
    const Tensor& c = operands.set(set)[rank].c;
    if (shape.op == OpKind::kGemmAr && rank > 0) {
      worst.wrong += operands.engine().count_different(c, operands.set(set)[0].c);
      continue;
    }
    const int64_t first_row = shape.op == OpKind::kGemmAr ? 0 : rank * c.rows;
    worst.add(operands.engine().check_sum({a.view, b.view, c, ranks, first_row, hops}, operands.kind()));
  }
  return worst;
}

constexpr FusedOperator kOperators[] = {
    {OpKind::kAgGemm, launch_ag_gemm, launch_ag_gemm_paced, check_ag_gemm},
    {OpKind::kGemmRs, launch_gemm_rs, launch_gemm_rs_paced, check_sum},
    {OpKind::kGemmAr, launch_gemm_ar, launch_gemm_ar_paced, check_sum},
};

}  // namespace

const FusedOperator& fused_operator(OpKind op) {
  for (const FusedOperator& one : kOperators) {
    if (one.op == op) return one;
  }
  return kOperators[0];
}

}  // namespace mk::bench

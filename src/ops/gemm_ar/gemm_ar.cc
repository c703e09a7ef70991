// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar.cc — the public call: check, choose the path, plan, launch every rank.
#include "mkernel/gemm_ar.h"

#include "ops/gemm/gemm_launch.h"
#include "ops/gemm_ar/gemm_ar_one_shot_protocol.h"
#include "ops/gemm_ar/gemm_ar_protocol.h"
#include "ops/gemm_ar/gemm_ar_targets.h"
#include "ops/host_launch.h"
#include "ops/plan_spec.h"
#include "ops/split.h"

namespace mk {
namespace gemm_ar_op {
namespace {

template <class MakeLayout>
runtime::Plan& plan_of(runtime::WorldState& world, const char* name, const Problem& problem,
                       const MakeLayout& make_layout) {
  const auto layout = world.checked(make_layout);
  return world.plan(gemm::plan_key(name, problem, in_words(layout.kRoles, layout.roles)),
                    [&] { return plan_spec(layout); });
}

}  // namespace

runtime::Plan& plan_for(runtime::WorldState& world, const Problem& problem, AllReducePath path, const Split& split) {
  const Seats seats = seats_of(world.device());
  const DeviceKind kind = world.device().kind();
  if (path == AllReducePath::kOneShot) {
    return plan_of(world, "gemm_ar one shot", problem, [&] { return one_shot_for(problem, split, seats, kind); });
  }
  return plan_of(world, "gemm_ar two shots", problem, [&] { return two_shot_for(problem, split, seats, kind); });
}

void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, AllReducePath path, int rank,
                 const GemmArgs& args) {
  if (path == AllReducePath::kOneShot) {
    gemm::launch_rank<OneShotLayout>(world, plan, rank, args);
  } else {
    gemm::launch_rank<TwoShotLayout>(world, plan, rank, args);
  }
}

}  // namespace gemm_ar_op

void gemm_ar(World& world, std::span<const GemmArgs> args, const GemmArOptions& options) {
  runtime::WorldState& state = world.state();
  const auto call = state.begin_call();
  AllReducePath path = options.path;
  const gemm_ar_op::Problem problem = state.checked([&] {
    const gemm_ar_op::Problem asked = gemm::problem_of(state.shape(), state.members(), args);
    path = gemm_ar_op::path_for(asked, options.path);
    gemm_ar_op::check_problem(asked, path, world.device());
    gemm::check_args(asked, state.members(), args, asked.m, world.device());
    return asked;
  });
  state.check_usable();
  const runtime::Plan& plan = gemm_ar_op::plan_for(state, problem, path, options.split);
  launch_every_rank(state, args,
                    [&](int rank, const GemmArgs& own) { gemm_ar_op::launch_rank(state, plan, path, rank, own); });
}

int64_t gemm_ar_workspace_bytes(const World& world, int64_t m, int64_t n, int64_t k, DType dtype, AllReducePath asked) {
  const runtime::WorldState& state = world.state();
  const gemm_ar_op::Problem problem{state.shape(), m, n, k, dtype};
  const AllReducePath path = gemm_ar_op::path_for(problem, asked);
  gemm_ar_op::check_problem(problem, path, world.device());
  const auto bytes = [](const auto& layout) {
    return static_cast<int64_t>(runtime::workspace_bytes(plan_spec(layout)));
  };
  const runtime::Device& device = state.device();
  return gemm_ar_op::with_layout_for(problem, path, {}, seats_of(device), device.kind(), bytes);
}

}  // namespace mk

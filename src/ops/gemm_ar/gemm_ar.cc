// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar.cc — the public call: check, choose the path, plan, launch every rank.
#include "mkernel/gemm_ar.h"

#include "ops/dense/dense_plan.h"
#include "ops/dense/gemm_launch.h"
#include "ops/gemm_ar/gemm_ar_configs.h"
#include "ops/gemm_ar/gemm_ar_one_shot_protocol.h"
#include "ops/gemm_ar/gemm_ar_protocol.h"
#include "ops/gemm_ar/gemm_ar_targets.h"
#include "ops/host_launch.h"
#include "ops/split.h"

namespace mk {
namespace gemm_ar_op {
namespace {

runtime::PlanSpec make_spec(const runtime::WorldState& world, const Problem& problem, AllReducePath path,
                            const Roster& roles) {
  const bool on_gpu = world.device().kind() == DeviceKind::kCuda;
  const int64_t shards = path == AllReducePath::kOneShot ? 1 : problem.world.size();
  const TileShape tile = on_gpu ? dense::gpu_tile(problem, shards, roles.num_compute()) : kCpuTile;
  return path == AllReducePath::kOneShot ? dense::plan_spec(make_one_shot(problem, tile, roles))
                                         : dense::plan_spec(make_two_shot(problem, tile, roles));
}

}  // namespace

runtime::Plan& plan_for(runtime::WorldState& world, Problem problem, AllReducePath path, Split split) {
  const Roster roles = world.checked([&] { return choose_roles(problem, path, split, seats_of(world.device())); });
  const char* name = path == AllReducePath::kOneShot ? "gemm_ar one shot" : "gemm_ar two shots";
  return world.plan(dense::plan_key(name, problem, in_words(roles_of(path), roles)),
                    [&] { return make_spec(world, problem, path, roles); });
}

void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, AllReducePath path, int rank,
                 const GemmArgs& args) {
  if (path == AllReducePath::kOneShot) {
    dense::launch_rank<OneShotLayout>(world, plan, rank, args);
  } else {
    dense::launch_rank<TwoShotLayout>(world, plan, rank, args);
  }
}

}  // namespace gemm_ar_op

void gemm_ar(World& world, std::span<const GemmArgs> args, const GemmArOptions& options) {
  runtime::WorldState& state = world.state();
  AllReducePath path = options.path;
  const gemm_ar_op::Problem problem = state.checked([&] {
    const gemm_ar_op::Problem asked = dense::problem_of(state.shape(), state.members(), args);
    path = gemm_ar_op::path_for(asked, options.path);
    gemm_ar_op::check_problem(asked, path, world.device());
    dense::check_args(asked, state.members(), args, asked.m, world.device());
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
  const Roster roles = gemm_ar_op::choose_roles(problem, path, {}, seats_of(state.device()));
  return static_cast<int64_t>(runtime::workspace_bytes(gemm_ar_op::make_spec(state, problem, path, roles)));
}

}  // namespace mk

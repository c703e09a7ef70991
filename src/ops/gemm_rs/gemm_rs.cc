// SPDX-License-Identifier: MIT
// ops/gemm_rs/gemm_rs.cc — the public call: check, plan, launch every rank.
#include "mkernel/gemm_rs.h"

#include "ops/gemm/gemm_launch.h"
#include "ops/gemm_rs/gemm_rs_protocol.h"
#include "ops/gemm_rs/gemm_rs_targets.h"
#include "ops/host_launch.h"
#include "ops/plan_spec.h"
#include "ops/split.h"

namespace mk {
namespace gemm_rs_op {
namespace {

Layout layout_on(const runtime::Device& device, const Problem& problem, const Split& split) {
  return layout_for(problem, split, seats_of(device), device.kind());
}

}  // namespace

runtime::Plan& plan_for(runtime::WorldState& world, const Problem& problem, const Split& split) {
  const Layout layout = world.checked([&] { return layout_on(world.device(), problem, split); });
  return world.plan(gemm::plan_key("gemm_rs", problem, in_words(Layout::kRoles, layout.roles)),
                    [&] { return plan_spec(layout); });
}

void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const GemmArgs& args) {
  gemm::launch_rank<Layout>(world, plan, rank, args);
}

}  // namespace gemm_rs_op

void gemm_rs(World& world, std::span<const GemmArgs> args, const GemmRsOptions& options) {
  runtime::WorldState& state = world.state();
  const auto call = state.begin_call();
  const gemm_rs_op::Problem problem = state.checked([&] {
    const gemm_rs_op::Problem asked = gemm::problem_of(state.shape(), state.members(), args);
    gemm_rs_op::check_problem(asked, world.device());
    gemm::check_args(asked, state.members(), args, asked.m / world.size(), world.device());
    return asked;
  });
  state.check_usable();
  const runtime::Plan& plan = gemm_rs_op::plan_for(state, problem, options.split);
  launch_every_rank(state, args,
                    [&](int rank, const GemmArgs& own) { gemm_rs_op::launch_rank(state, plan, rank, own); });
}

int64_t gemm_rs_workspace_bytes(const World& world, int64_t m, int64_t n, int64_t k, DType dtype) {
  const gemm_rs_op::Problem problem{world.state().shape(), m, n, k, dtype};
  gemm_rs_op::check_problem(problem, world.device());
  return static_cast<int64_t>(
      runtime::workspace_bytes(plan_spec(gemm_rs_op::layout_on(world.state().device(), problem, {}))));
}

}  // namespace mk

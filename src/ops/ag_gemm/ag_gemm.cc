// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm.cc — the public call: check, plan, launch every rank.
#include "mkernel/ag_gemm.h"

#include <fmt/format.h>

#include "ops/ag_gemm/ag_gemm_problem.h"
#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "ops/ag_gemm/ag_gemm_targets.h"
#include "ops/gemm/gemm_launch.h"
#include "ops/host_launch.h"
#include "ops/plan_spec.h"
#include "ops/split.h"

namespace mk {
namespace ag_gemm_op {
namespace {

Layout layout_on(const runtime::Device& device, const Problem& problem, const AgGemmOptions& options) {
  return layout_for(problem, options, seats_of(device), device.kind());
}

}  // namespace

runtime::Plan& plan_for(runtime::WorldState& world, const Problem& problem, const AgGemmOptions& options) {
  const Layout layout = world.checked([&] { return layout_on(world.device(), problem, options); });
  const std::string op = fmt::format("ag_gemm tile {}x{}x{}", layout.tile_m, layout.tile_n, layout.cluster);
  return world.plan(gemm::plan_key(op, problem, in_words(Layout::kRoles, layout.roles)),
                    [&] { return plan_spec(layout); });
}

void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const AgGemmArgs& args) {
  gemm::launch_rank<Layout>(world, plan, rank, args);
}

}  // namespace ag_gemm_op

void ag_gemm(World& world, std::span<const AgGemmArgs> args, const AgGemmOptions& options) {
  runtime::WorldState& state = world.state();
  const auto call = state.begin_call();
  const ag_gemm_op::Problem problem = state.checked([&] {
    const ag_gemm_op::Problem asked = ag_gemm_op::problem_of(state.shape(), state.members(), args);
    ag_gemm_op::check_problem(asked, world.device());
    ag_gemm_op::check_args(asked, state.members(), args, world.device());
    return asked;
  });
  state.check_usable();
  const runtime::Plan& plan = ag_gemm_op::plan_for(state, problem, options);
  launch_every_rank(state, args,
                    [&](int rank, const AgGemmArgs& own) { ag_gemm_op::launch_rank(state, plan, rank, own); });
}

int64_t ag_gemm_workspace_bytes(const World& world, int64_t m, int64_t n, int64_t k, DType dtype) {
  const ag_gemm_op::Problem problem{world.state().shape(), m, n, k, dtype};
  ag_gemm_op::check_problem(problem, world.device());
  return static_cast<int64_t>(
      runtime::workspace_bytes(plan_spec(ag_gemm_op::layout_on(world.state().device(), problem, {}))));
}

}  // namespace mk

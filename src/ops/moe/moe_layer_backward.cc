// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_backward.cc — the public call: check, plan, launch every rank.
#include "mkernel/moe_layer_backward.h"

#include "ops/moe/moe_backward_host_body.h"
#include "ops/moe/moe_backward_sm90.h"
#include "ops/moe/moe_backward_targets.h"
#include "ops/moe/moe_host_launch.h"
#include "ops/moe/moe_plan_spec.h"
#include "ops/split.h"

namespace mk {
namespace moe {
namespace {

constexpr int kLeadRows = 64;  // as high as a box of a product over rows

BackwardLayout backward_layout_on(const runtime::Device& device, const LayerProblem& problem, const Split& split) {
  const Roster roles = choose_roles("moe_layer_backward", problem.world, split, seats_of(device));
  Cut dispatch = cut_on(device.kind(), problem.dispatch(), roles);
  if (device.kind() == DeviceKind::kCuda) {
    dispatch.tile_m = 128;  // the one tile there is
    dispatch.tile_n = 256;
  }
  BackwardLayout layout = make_backward_layout(problem, layer_cut_on(device.kind(), dispatch, roles), roles);
  if (device.kind() == DeviceKind::kCuda) layout.lead_rows = kLeadRows;
  return layout;
}

void check_own(const LayerProblem& problem, const MoeLayerBackwardArgs& own, int rank, DeviceKind device) {
  const MoeLayerShape& shape = problem.shape;
  const auto check = [&](const Tensor& tensor, const char* name, int64_t rows, int64_t cols) {
    gemm::check_tensor(tensor, name, rank, rows, cols, problem.dtype, device);
  };
  if (own.x.rows > 0) {
    check(own.dout, "dout", own.x.rows, shape.hidden);
    check(own.dx, "dx", own.x.rows, shape.hidden);
  }
  check(own.kept, "kept", shape.max_rows, 2 * shape.inter);
  check(own.dw13, "dw13", int64_t{problem.local_experts()} * 2 * shape.inter, shape.hidden);
  check(own.dw2, "dw2", problem.local_experts() * shape.hidden, shape.inter);
  check_alignment(own.dtopk_weight, "dtopk_weight", rank, 4);
}

}  // namespace

BackwardLayout make_backward_layout(const LayerProblem& problem, const LayerCut& cut, const Roster& roles) {
  BackwardLayout layout{make_layer_layout(problem, cut, roles)};
  layout.parts = 2;
  layout.act_cols = 2 * problem.shape.inter;
  layout.has_scores = true;
  return layout;
}

runtime::Plan& backward_plan_for(runtime::WorldState& world, const LayerProblem& problem, const Split& split) {
  const BackwardLayout layout = world.checked([&] { return backward_layout_on(world.device(), problem, split); });
  return world.plan(plan_key("moe_layer_backward", problem, in_words(Layout::kRoles, layout.roles)),
                    [&] { return spec_of(layout); });
}

// The plan outlives its launches, and so does its layout.
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const MoeLayerBackwardArgs& args) {
  RankView view = plan.view(rank);
  set_inputs(view, args.dout, args.topk_idx, args.topk_weight);
  view.windows.inputs[kMoreInput] = static_cast<const std::byte*>(args.x.data);
  const auto& layout = plan.layout<BackwardLayout>();
  if (world.device().kind() == DeviceKind::kCuda) {
    const Stream stream = runtime::is_default(args.stream) ? world.device().stream(rank) : args.stream;
    return launch_gpu(layout, view, plan, args, stream);
  }
  launch_bodies<BackwardHostBody>(world, view, layout, operands_of(args), args.w2.dtype);
}

}  // namespace moe

void moe_layer_backward(World& world, const MoeLayerShape& shape, std::span<const MoeLayerBackwardArgs> args,
                        const MoeLayerOptions& options) {
  runtime::WorldState& state = world.state();
  const auto call = state.begin_call();
  const moe::LayerProblem problem = state.checked([&] {
    const DeviceKind device = world.device();
    const auto check = [&](const moe::LayerProblem& asked, const MoeLayerBackwardArgs& own, int rank) {
      moe::check_own(asked, own, rank, device);
    };
    return moe::layer_problem_of(state.shape(), state.members(), shape, args, device, check);
  });
  state.check_usable();
  const runtime::Plan& plan = moe::backward_plan_for(state, problem, options.split);
  launch_every_rank(state, args,
                    [&](int rank, const MoeLayerBackwardArgs& own) { moe::launch_rank(state, plan, rank, own); });
}

int64_t moe_layer_backward_workspace_bytes(const World& world, const MoeLayerShape& shape, DType dtype) {
  const moe::LayerProblem problem{world.state().shape(), shape, dtype};
  moe::check_layer(problem, world.device());
  return static_cast<int64_t>(
      runtime::workspace_bytes(moe::spec_of(moe::backward_layout_on(world.state().device(), problem, {}))));
}

}  // namespace mk

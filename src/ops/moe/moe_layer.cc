// SPDX-License-Identifier: MIT
// ops/moe/moe_layer.cc — the public call: check, plan, launch every rank.
#include "mkernel/moe_layer.h"

#include <algorithm>

#include "ops/moe/moe_host_launch.h"
#include "ops/moe/moe_layer_host_body.h"
#include "ops/moe/moe_layer_sm90.h"
#include "ops/moe/moe_layer_targets.h"
#include "ops/moe/moe_plan_spec.h"
#include "ops/split.h"

namespace mk {
namespace moe {
namespace {

LayerLayout layout_on(const runtime::Device& device, const LayerProblem& problem, const Split& split) {
  const Roster roles = choose_roles("moe_layer", problem.world, split, seats_of(device));
  LayerCut cut = layer_cut_on(device.kind(), cut_on(device.kind(), problem.dispatch(), roles), roles);
  if (device.kind() == DeviceKind::kCuda) cut.act_tile_n /= 2;  // of gate and up
  return make_layer_layout(problem, cut, roles);
}

}  // namespace

LayerCut layer_cut_on(DeviceKind device, const Cut& dispatch, const Roster& roles) {
  LayerCut cut{dispatch};
  cut.early_eighths = 4;  // results of tokens that crossed go back meanwhile
  if (device != DeviceKind::kCuda) return cut;
  constexpr int kTilesOfAGroup = 1;  // of each block that computes
  cut.act_tile_n = cut.tile_n;
  cut.chunk_rows = std::min(cut.chunk_rows, 16);  // the last sums are shared by more workers
  cut.group_tiles = kTilesOfAGroup * roles.num_compute();
  return cut;
}

LayerLayout make_layer_layout(const LayerProblem& problem, const LayerCut& cut, const Roster& roles) {
  LayerLayout layout{make_layout(problem.dispatch(), cut, roles)};
  layout.inter = problem.shape.inter;
  layout.act_cols = problem.shape.inter;
  layout.act_tile_n = cut.act_tile_n;
  layout.group_tiles = cut.group_tiles;
  if (problem.shape.activation_clamp > 0) layout.clamp.most = problem.shape.activation_clamp;
  return layout;
}

runtime::Plan& plan_for(runtime::WorldState& world, const LayerProblem& problem, const Split& split) {
  const LayerLayout layout = world.checked([&] { return layout_on(world.device(), problem, split); });
  return world.plan(plan_key("moe_layer", problem, in_words(Layout::kRoles, layout.roles)),
                    [&] { return spec_of(layout); });
}

// The plan outlives its launches, and so does its layout.
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const MoeLayerArgs& args) {
  RankView view = plan.view(rank);
  set_inputs(view, args.x, args.topk_idx, args.topk_weight);
  const LayerLayout& layout = plan.layout<LayerLayout>();
  if (world.device().kind() == DeviceKind::kCuda) {
    const Stream stream = runtime::is_default(args.stream) ? world.device().stream(rank) : args.stream;
    return launch_gpu(layout, view, plan, args, stream);
  }
  launch_bodies<LayerHostBody>(world, view, layout, operands_of(args), args.w2.dtype);
}

}  // namespace moe

void moe_layer(World& world, const MoeLayerShape& shape, std::span<const MoeLayerArgs> args,
               const MoeLayerOptions& options) {
  runtime::WorldState& state = world.state();
  const auto call = state.begin_call();
  const moe::LayerProblem problem = state.checked([&] {
    const DeviceKind device = world.device();
    const auto check = [&](const moe::LayerProblem& asked, const MoeLayerArgs& own, int rank) {
      if (own.x.rows > 0) gemm::check_tensor(own.out, "out", rank, own.x.rows, shape.hidden, asked.dtype, device);
      moe::check_told(rank, shape.overflow, own.load, own.routed_idx, own.dropped);
      if (own.kept.data == nullptr) return;
      gemm::check_tensor(own.kept, "kept", rank, shape.max_rows, 2 * shape.inter, asked.dtype, device);
    };
    return moe::layer_problem_of(state.shape(), state.members(), shape, args, device, check);
  });
  state.check_usable();
  const runtime::Plan& plan = moe::plan_for(state, problem, options.split);
  launch_every_rank(state, args, [&](int rank, const MoeLayerArgs& own) { moe::launch_rank(state, plan, rank, own); });
}

int64_t moe_layer_workspace_bytes(const World& world, const MoeLayerShape& shape, DType dtype) {
  const moe::LayerProblem problem{world.state().shape(), shape, dtype};
  moe::check_layer(problem, world.device());
  return static_cast<int64_t>(
      runtime::workspace_bytes(moe::spec_of(moe::layout_on(world.state().device(), problem, {}))));
}

}  // namespace mk

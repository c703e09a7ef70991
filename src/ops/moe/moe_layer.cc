// SPDX-License-Identifier: MIT
// ops/moe/moe_layer.cc — the public call: check, plan, launch every rank.
#include "mkernel/moe_layer.h"

#include "base/check.h"
#include "ops/gemm/gemm_problem.h"
#include "ops/host_launch.h"
#include "ops/moe/moe_layer_host_body.h"
#include "ops/moe/moe_layer_sm90.h"
#include "ops/moe/moe_layer_targets.h"
#include "ops/moe/moe_problem.h"
#include "ops/plan_spec.h"
#include "ops/split.h"

namespace mk {
namespace moe {
namespace {

constexpr int kTilesOfAGroup = 1;  // of each block that computes, on a GPU

void check_layer(const LayerProblem& problem, DeviceKind device) {
  const MoeLayerShape& shape = problem.shape;
  check_arg(shape.inter >= 1 && shape.inter < int64_t{1} << 30, "inter is {}; it must be at least 1 and below 2^30",
            shape.inter);
  check_problem(problem.dispatch(), device);
  constexpr int64_t kMostElements = int64_t{1} << 56;  // of a window
  const int64_t returned = shape.max_tokens * shape.topk * problem.world.nodes;
  check_arg(shape.max_rows <= kMostElements / shape.inter && returned <= kMostElements / shape.hidden,
            "max_tokens, max_rows, hidden and inter are {}, {}, {} and {}; no window may have more than 2^56 elements",
            shape.max_tokens, shape.max_rows, shape.hidden, shape.inter);
  if (device != DeviceKind::kCuda) return;
  check_arg(shape.inter % 8 == 0, "inter is {}; on cuda it must be a multiple of 8 (16 bytes, for TMA)", shape.inter);
  const int addends = shape.topk + problem.world.nodes - 1;
  check_arg(addends <= kMostGpuAddends, "topk is {} in a world of {} nodes; on cuda a token may have {} addends",
            shape.topk, problem.world.nodes, kMostGpuAddends);
}

void check_layer_args(const LayerProblem& problem, const runtime::Members& members, std::span<const MoeLayerArgs> args,
                      DeviceKind device) {
  const MoeLayerShape& shape = problem.shape;
  const int64_t experts = problem.local_experts();
  for (size_t i = 0; i < args.size(); ++i) {
    const MoeLayerArgs& own = args[i];
    const int rank = members.first + static_cast<int>(i);
    check_tokens(problem.dispatch(), rank, own.x, own.topk_idx, own.topk_weight, device);
    if (own.x.rows > 0) {
      gemm::check_tensor(own.out, "out", rank, own.x.rows, shape.hidden, problem.dtype, device);
    }
    gemm::check_tensor(own.w13, "w13", rank, experts * 2 * shape.inter, shape.hidden, problem.dtype, device);
    gemm::check_tensor(own.w2, "w2", rank, experts * shape.hidden, shape.inter, problem.dtype, device);
    check_arg(device == DeviceKind::kCuda || own.stream == nullptr,
              "stream of rank {} is set; CPU worlds take null only", rank);
  }
}

runtime::PlanSpec spec_of(const LayerLayout& layout) {
  runtime::PlanSpec spec = plan_spec(layout);
  spec.names.is_inner = [layout](uint32_t signal) { return layout.is_inner(signal); };
  spec.names.refusal = [layout](const FaultRecord& record) { return refusal(layout, record); };
  return spec;
}

LayerLayout layout_on(const runtime::Device& device, const LayerProblem& problem, const Split& split) {
  const Roster roles = choose_roles("moe_layer", problem.world, split, seats_of(device));
  LayerCut cut;
  if (device.kind() == DeviceKind::kCuda) {
    static_cast<Cut&>(cut) = cut_on(device.kind(), problem.dispatch(), roles);
    cut.act_tile_n = cut.tile_n / 2;
    cut.group_tiles = kTilesOfAGroup * roles.num_compute();
  }
  return make_layer_layout(problem, cut, roles);
}

std::string plan_key(const LayerProblem& problem, const std::string& roles) {
  const MoeLayerShape& shape = problem.shape;
  return fmt::format("moe_layer {} tokens {} rows {}x{} top {} of {} {} {}", shape.max_tokens, shape.max_rows,
                     shape.hidden, shape.inter, shape.topk, shape.experts, name_of(problem.dtype), roles);
}

template <class T>
void work_on_host(cpu::CpuMachine& m, const LayerLayout& layout, const Post& post, const LayerOperands& operands) {
  const auto resolve = [&m](const Place& place) { return m.view().windows.resolve(m.world(), place); };
  LayerHostBody<T, decltype(resolve)> body(layout, m.rank(), operands, resolve);
  work(m, layout, post, body);
}

}  // namespace

LayerLayout make_layer_layout(const LayerProblem& problem, const LayerCut& cut, const Roster& roles) {
  LayerLayout layout{make_layout(problem.dispatch(), cut, roles)};
  layout.inter = problem.shape.inter;
  layout.act_tile_n = cut.act_tile_n;
  layout.group_tiles = cut.group_tiles;
  return layout;
}

runtime::Plan& plan_for(runtime::WorldState& world, const LayerProblem& problem, const Split& split) {
  const LayerLayout layout = world.checked([&] { return layout_on(world.device(), problem, split); });
  return world.plan(plan_key(problem, in_words(Layout::kRoles, layout.roles)), [&] { return spec_of(layout); });
}

// The plan outlives its launches, and so does its layout.
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const MoeLayerArgs& args) {
  RankView view = plan.view(rank);
  view.windows.inputs[kTokensInput] = static_cast<const std::byte*>(args.x.data);
  view.windows.inputs[kIdsInput] = static_cast<const std::byte*>(args.topk_idx.data);
  view.windows.inputs[kWeightsInput] = reinterpret_cast<const std::byte*>(args.topk_weight);
  const LayerLayout& layout = plan.layout<LayerLayout>();
  if (world.device().kind() == DeviceKind::kCuda) {
    const Stream stream = runtime::is_default(args.stream) ? world.device().stream(rank) : args.stream;
    return launch_gpu(layout, view, plan, args, stream);
  }
  const LayerOperands operands = operands_of(args);
  const DType dtype = args.w2.dtype;
  launch_on_host(world, view, layout.roles, [&layout, operands, dtype](cpu::CpuMachine& m, const Post& post) {
    switch (dtype) {
      case DType::kBf16: return work_on_host<Bf16>(m, layout, post, operands);
      case DType::kFp16: return work_on_host<Fp16>(m, layout, post, operands);
      case DType::kFp32: return work_on_host<float>(m, layout, post, operands);
    }
  });
}

}  // namespace moe

void moe_layer(World& world, const MoeLayerShape& shape, std::span<const MoeLayerArgs> args,
               const MoeLayerOptions& options) {
  runtime::WorldState& state = world.state();
  const moe::LayerProblem problem = state.checked([&] {
    const runtime::Members& members = state.members();
    check_arg(args.size() == static_cast<size_t>(members.count), "args has {} entries; {} ranks of the world are here",
              args.size(), members.count);
    const moe::LayerProblem asked{state.shape(), shape, args[0].w2.dtype};  // x may be empty
    moe::check_layer(asked, world.device());
    moe::check_layer_args(asked, members, args, world.device());
    return asked;
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

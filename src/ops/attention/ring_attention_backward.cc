// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward.cc — the public call: check, plan, launch every rank.
#include "mkernel/ring_attention_backward.h"

#include <algorithm>

#include "base/check.h"
#include "ops/attention/ring_attention_backward_host_body.h"
#include "ops/attention/ring_attention_backward_protocol.h"
#include "ops/attention/ring_attention_backward_sm90.h"
#include "ops/attention/ring_attention_backward_targets.h"
#include "ops/attention/ring_attention_targets.h"
#include "ops/host_launch.h"
#include "ops/plan_spec.h"

namespace mk {
namespace attention {
namespace {

KeptBackwardLayout layout_on(const runtime::Device& device, const Problem& problem, const Split& split) {
  const Seats seats = seats_of(device);
  return make_backward_layout(problem, backward_cut_on(device.kind(), problem, seats),
                              choose_backward_roles(problem.world, split, seats));
}

runtime::PlanSpec spec_of(const KeptBackwardLayout& layout) {
  runtime::PlanSpec spec = plan_spec(layout);
  spec.names.is_inner = [layout](uint32_t signal) { return layout.is_inner(signal); };
  return spec;
}

BackwardOperands operands_of(const Problem& problem, const RingAttentionBackwardArgs& args) {
  return {.q = head_view(args.q),
          .k = head_view(args.k),
          .v = head_view(args.v),
          .o = head_view(args.o),
          .dout = head_view(args.dout),
          .lse = args.lse,
          .sink = args.sink,
          .dq = head_view(args.dq),
          .dk = head_view(args.dk),
          .dv = head_view(args.dv),
          .dsink = args.dsink,
          .scale = problem.scale_of_scores()};
}

template <class T>
void work_on_host(cpu::CpuMachine& m, const BackwardLayout& layout, const Post& post,
                  const BackwardOperands& operands) {
  const auto resolve = [&m](const Place& place) { return m.view().windows.resolve(m.world(), place); };
  BackwardHostBody<T, decltype(resolve)> body(layout, m.rank(), operands, resolve);
  work(m, layout, post, body);
}

}  // namespace

Roster choose_backward_roles(const WorldShape& world, const Split& asked, const Seats& seats) {
  const bool has_peers = world.ranks > 1;
  const bool has_nodes = world.nodes > 1;
  const bool collects = world.size() > 1;
  if (!asked.empty()) {
    const RoleNeed needs[] = {{has_peers}, {has_nodes}, {has_nodes}, {collects}, {}};
    return checked_split("ring_attention_backward", world, asked, BackwardLayout::kRoles, needs, seats);
  }
  const auto only_if = [](bool is_needed, int workers) { return Roster::Row{is_needed ? workers : 0}; };
  if (seats.sharing == 1) {
    return filled_up(
        world, {only_if(has_peers, 1), only_if(has_nodes, 1), only_if(has_nodes, 1), only_if(collects, 1), {1}}, seats);
  }
  // Gradients are fp32, so most of what moves; where only peers are, whole SMs of both kinds.
  const int half = seats.sharing / 2;
  const int collect = has_nodes ? seats.sharing : 2 * seats.sharing - half;
  return filled_up(world,
                   {only_if(has_peers, half),
                    only_if(has_nodes, has_peers ? half - 1 : seats.sharing - 1),
                    only_if(has_nodes, 1),
                    only_if(collects, collect),
                    {1}},
                   seats);
}

BackwardCut backward_cut_on(DeviceKind device, const Problem& problem, const Seats& seats) {
  if (device != DeviceKind::kCuda) return {};
  const RingAttentionShape& shape = problem.shape;
  BackwardCut cut{.block_rows = gpu_block_rows(shape.dim),
                  .key_rows = gpu_key_rows(shape.dim),
                  .part_bytes = 128 * 1024,
                  .chunks_of_piece = 8,
                  .share_rows = 128};
  // Key heads whose queries and gradients stay in the rank's part of the L2 while the tiles of a step pass by.  With a
  // causal mask tiles get ever shorter, and those of one head would wait for each other's turns: so at least so many
  // heads of queries side by side.
  constexpr int64_t kHeadsOfShortTiles = 8;
  const int64_t group = shape.heads / shape.kv_heads;
  const int64_t head_bytes = 2 * shape.rows * shape.dim * size_of(shape.dtype) * group;
  const int64_t fit = l2_share(seats) / head_bytes;
  const int64_t least = problem.mask.kind == MaskKind::kCausal ? kHeadsOfShortTiles / group : 1;
  const int64_t all = shape.batch * shape.kv_heads;
  int64_t together = std::clamp<int64_t>(std::max(fit, least), 1, all);
  while (all % together != 0) --together;
  cut.heads_together = static_cast<int>(together);
  return cut;
}

runtime::Plan& backward_plan_for(runtime::WorldState& world, const Problem& problem, const Split& split) {
  KeptBackwardLayout layout = world.checked([&] { return layout_on(world.device(), problem, split); });
  const std::string key = "backward " + plan_key(problem, in_words(BackwardLayout::kRoles, layout.roles));
  return world.plan(key, [&] {
    layout.keep_on(world.device());
    return spec_of(layout);
  });
}

// The plan outlives its launches, and so does what its layout points to.
void launch_backward_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const Problem& problem,
                          const RingAttentionBackwardArgs& args) {
  RankView view = plan.view(rank);
  const void* const inputs[] = {args.q.data, args.k.data, args.v.data};
  for (int i = 0; i < 3; ++i) view.windows.inputs[i] = static_cast<const std::byte*>(inputs[i]);
  const auto layout = layout_for<KeptBackwardLayout>(plan, args);
  const BackwardOperands operands = operands_of(problem, args);
  const DType dtype = problem.shape.dtype;
  if (world.device().kind() == DeviceKind::kCuda) {
    const Stream stream = runtime::is_default(args.stream) ? world.device().stream(rank) : args.stream;
    return launch_backward_gpu(layout.on_device(), view, plan, operands, dtype, stream);
  }
  launch_on_host(world, view, layout.roles, [layout, operands, dtype](cpu::CpuMachine& m, const Post& post) {
    switch (dtype) {
      case DType::kBf16: return work_on_host<Bf16>(m, layout, post, operands);
      case DType::kFp16: return work_on_host<Fp16>(m, layout, post, operands);
      case DType::kFp32: return work_on_host<float>(m, layout, post, operands);
    }
  });
}

}  // namespace attention

void ring_attention_backward(World& world, std::span<const RingAttentionBackwardArgs> args,
                             const RingAttentionOptions& options) {
  runtime::WorldState& state = world.state();
  const auto call = state.begin_call();
  const attention::Problem problem = state.checked([&] {
    const attention::Problem asked = attention::problem_of(state.shape(), state.members(), args, options);
    attention::check_problem(asked, world.device());
    attention::check_args(asked, state.members(), args, world.device());
    return asked;
  });
  state.check_usable();
  const runtime::Plan& plan = attention::backward_plan_for(state, problem, options.split);
  launch_every_rank(state, args, [&](int rank, const RingAttentionBackwardArgs& own) {
    attention::launch_backward_rank(state, plan, rank, problem, own);
  });
}

int64_t ring_attention_backward_workspace_bytes(const World& world, const RingAttentionShape& shape,
                                                const RingAttentionOptions& options) {
  const attention::Problem problem{world.state().shape(), shape,
                                   options.mask,          options.order,
                                   options.scale,         {options.cu_seqlens.begin(), options.cu_seqlens.end()}};
  attention::check_problem(problem, world.device());
  return static_cast<int64_t>(runtime::workspace_bytes(
      attention::spec_of(attention::layout_on(world.state().device(), problem, options.split))));
}

}  // namespace mk

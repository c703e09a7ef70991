// SPDX-License-Identifier: MIT
// ops/attention/ring_attention.cc — the public call: check, plan, launch every rank.
#include "mkernel/ring_attention.h"

#include <algorithm>

#include "ops/attention/ring_attention_host_body.h"
#include "ops/attention/ring_attention_protocol.h"
#include "ops/attention/ring_attention_sm90.h"
#include "ops/attention/ring_attention_targets.h"
#include "ops/host_launch.h"
#include "ops/plan_spec.h"
#include "ops/split.h"

namespace mk {
namespace attention {
namespace {

KeptLayout layout_on(const runtime::Device& device, const Problem& problem, const Split& split) {
  const Seats seats = seats_of(device);
  return make_layout(problem, cut_on(device.kind(), problem, seats), choose_roles(problem, split, seats));
}

runtime::PlanSpec spec_of(const KeptLayout& layout) {
  runtime::PlanSpec spec = plan_spec(layout);
  spec.names.is_inner = [layout](uint32_t signal) { return layout.is_inner(signal); };
  return spec;
}

template <class T>
void work_on_host(cpu::CpuMachine& m, const Layout& layout, const Post& post, const Operands& operands) {
  const auto resolve = [&m](const Place& place) { return m.view().windows.resolve(m.world(), place); };
  HostBody<T, decltype(resolve)> body(layout, m.rank(), operands, resolve);
  work(m, layout, post, body);
}

}  // namespace

Roster choose_roles(const Problem& problem, const Split& asked, const Seats& seats) {
  const WorldShape& world = problem.world;
  const bool has_peers = world.ranks > 1;
  const bool has_nodes = world.nodes > 1;
  if (!asked.empty()) {
    const RoleNeed needs[] = {{has_peers}, {has_nodes}, {has_nodes}, {}};
    return checked_split("ring_attention", world, asked, Layout::kRoles, needs, seats);
  }
  if (seats.sharing == 1)
    return filled_up(world, {{has_peers ? 1 : 0}, {has_nodes ? 1 : 0}, {has_nodes ? 1 : 0}, {1}}, seats);
  // A warp moves 16 GB/s.  With many queries a key an SM's warps are enough; with fewer, or for two kinds of links, an
  // SM for each.
  constexpr int64_t kQueriesOfAnSm = 40'000;
  const bool are_many = problem.shape.rows * (problem.shape.heads / problem.shape.kv_heads) >= kQueriesOfAnSm;
  const int workers = has_peers && has_nodes && !are_many ? 2 * seats.sharing : seats.sharing;
  const int keep = has_nodes ? 1 : 0;
  const int send = !has_nodes ? 0 : has_peers ? workers / 2 - 1 : workers - 1;
  return filled_up(world, {{has_peers ? workers - send - keep : 0}, {send}, {keep}, {1}}, seats);
}

Cut cut_on(DeviceKind device, const Problem& problem, const Seats& seats) {
  if (device != DeviceKind::kCuda) return {};
  Cut cut{.tile_rows = kGpuTileRows, .part_bytes = 128 * 1024, .chunks_of_piece = 8};
  // Heads whose keys and values stay in the rank's part of the L2 while the tiles of a step go over them.
  const RingAttentionShape& shape = problem.shape;
  const int64_t head_bytes = 2 * shape.rows * shape.dim * size_of(shape.dtype);
  const int64_t together = std::max<int64_t>(1, l2_share(seats) / head_bytes) * (shape.heads / shape.kv_heads);
  cut.heads_together = static_cast<int>(std::min(together, shape.batch * shape.heads));
  return cut;
}

runtime::Plan& plan_for(runtime::WorldState& world, const Problem& problem, const Split& split) {
  KeptLayout layout = world.checked([&] { return layout_on(world.device(), problem, split); });
  return world.plan(plan_key(problem, in_words(Layout::kRoles, layout.roles)), [&] {
    layout.keep_on(world.device());
    return spec_of(layout);
  });
}

RankView view_of(const runtime::Plan& plan, int rank, const RingAttentionArgs& args) {
  RankView view = plan.view(rank);
  const void* const inputs[] = {args.q.data, args.k.data, args.v.data};
  for (int i = 0; i < 3; ++i) view.windows.inputs[i] = static_cast<const std::byte*>(inputs[i]);
  return view;
}

Operands operands_of(const Problem& problem, const RingAttentionArgs& args) {
  return {head_view(args.q), head_view(args.k), head_view(args.v),        head_view(args.o),
          args.lse,          args.sink,         problem.scale_of_scores()};
}

// The plan outlives its launches, and so does what its layout points to.
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const Problem& problem,
                 const RingAttentionArgs& args) {
  const RankView view = view_of(plan, rank, args);
  const auto layout = layout_for<KeptLayout>(plan, args);
  const Operands operands = operands_of(problem, args);
  const DType dtype = problem.shape.dtype;
  if (world.device().kind() == DeviceKind::kCuda) {
    const Stream stream = runtime::is_default(args.stream) ? world.device().stream(rank) : args.stream;
    return launch_gpu(layout.on_device(), view, plan, operands, dtype, stream);
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

void ring_attention(World& world, std::span<const RingAttentionArgs> args, const RingAttentionOptions& options) {
  runtime::WorldState& state = world.state();
  const auto call = state.begin_call();
  const attention::Problem problem = state.checked([&] {
    const attention::Problem asked = attention::problem_of(state.shape(), state.members(), args, options);
    attention::check_problem(asked, world.device());
    attention::check_args(asked, state.members(), args, world.device());
    return asked;
  });
  state.check_usable();
  const runtime::Plan& plan = attention::plan_for(state, problem, options.split);
  launch_every_rank(state, args, [&](int rank, const RingAttentionArgs& own) {
    attention::launch_rank(state, plan, rank, problem, own);
  });
}

int64_t ring_attention_workspace_bytes(const World& world, const RingAttentionShape& shape,
                                       const RingAttentionOptions& options) {
  const attention::Problem problem{world.state().shape(), shape,
                                   options.mask,          options.order,
                                   options.scale,         {options.cu_seqlens.begin(), options.cu_seqlens.end()}};
  attention::check_problem(problem, world.device());
  return static_cast<int64_t>(runtime::workspace_bytes(
      attention::spec_of(attention::layout_on(world.state().device(), problem, options.split))));
}

}  // namespace mk

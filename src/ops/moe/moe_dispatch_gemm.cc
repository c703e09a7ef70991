// SPDX-License-Identifier: MIT
// ops/moe/moe_dispatch_gemm.cc — the public call: check, plan, launch every rank.
#include <algorithm>

#include "ops/moe/moe_host_body.h"
#include "ops/moe/moe_host_launch.h"
#include "ops/moe/moe_plan_spec.h"
#include "ops/moe/moe_sm90.h"
#include "ops/moe/moe_targets.h"
#include "ops/split.h"

namespace mk {
namespace moe {
namespace {

Layout layout_on(const runtime::Device& device, const Problem& problem, const Split& split) {
  const Roster roles = choose_roles("moe_dispatch_gemm", problem.world, split, seats_of(device), Sums::kNo);
  return make_layout(problem, cut_on(device.kind(), problem, roles), roles);
}

}  // namespace

Roster choose_roles(const char* op, const WorldShape& world, const Split& asked, const Seats& seats, Sums sums) {
  const bool has_nodes = world.nodes > 1;
  if (!asked.empty()) {
    const RoleNeed needs[] = {{true, RoleNeed::Inside::kAlways}, {has_nodes}, {}};
    return checked_split(op, world, asked, Layout::kRoles, needs, seats);
  }
  if (seats.sharing == 1) return filled_up(world, {{1}, {has_nodes ? 1 : 0}, {1}}, seats);
  // A warp of each block that computes dispatches.  Eight that send keep a NIC of 50 GB/s busy; but a sum of eight rows
  // takes a warp 10 us, and then one SM in eleven is the best share.
  const int sms = sums == Sums::kYes ? std::max(1, seats.count / 11) : 1;
  return filled_up(world, {{0, Seating::kInside}, {has_nodes ? sms * seats.sharing : 0}, {1}}, seats);
}

// On a GPU: high tiles where experts have many rows.
Cut cut_on(DeviceKind device, const Problem& problem, const Roster& roles) {
  Cut cut{.phase_tokens = phase_tokens_of(problem, device)};
  if (device != DeviceKind::kCuda) return cut;
  const MoeShape& shape = problem.shape;
  const int64_t expected = shape.max_tokens * problem.world.size() * shape.topk / shape.experts;
  cut.tile_m = 128;
  cut.tile_n = 256;
  // Large bundles where an expert gets many rows of a batch, and large chunks where every worker has some all the same.
  const int64_t rows = int64_t{cut.phase_tokens} * shape.topk / shape.experts;
  cut.bundle_rows = rows >= 128 ? 32 : rows >= 64 ? 16 : 8;
  const int64_t senders = std::max(1, roles.count(Layout::kSend));
  cut.chunk_rows = static_cast<int>(std::min<int64_t>(32, ceil_div(shape.max_tokens, 2 * senders)));
  // Four slices for each worker that lists, which the first does not, so that none has much more than others.
  const int64_t listing = std::max(1, roles.count(Layout::kDispatch) - 1);
  const int64_t least = ceil_div(64, shape.topk);
  cut.slice_tokens = static_cast<int>(std::max(ceil_div(shape.max_tokens, 4 * listing), least));
  if (expected <= 64) cut.tile_m = 64;
  return cut;
}

Layout make_layout(const Problem& problem, const Cut& cut, const Roster& roles) {
  const MoeShape& shape = problem.shape;
  Layout layout;
  layout.world = problem.world;
  layout.experts = shape.experts;
  layout.topk = shape.topk;
  layout.shared = problem.shared;
  layout.drops = shape.overflow == MoeOverflow::kDrop;
  layout.max_tokens = shape.max_tokens;
  layout.max_rows = shape.max_rows;
  layout.k = shape.hidden;
  layout.n = shape.n;
  layout.element_bytes = static_cast<int>(size_of(problem.dtype));
  layout.tile_m = cut.tile_m;
  layout.tile_n = cut.tile_n;
  layout.phase_tokens = static_cast<int>(
      problem.world.nodes == 1 ? shape.max_tokens : std::min<int64_t>(cut.phase_tokens, shape.max_tokens));
  layout.slice_tokens = std::min(cut.slice_tokens, layout.phase_tokens);
  layout.early_eighths = cut.early_eighths;
  layout.chunk_rows = cut.chunk_rows;
  layout.bundle_rows = cut.bundle_rows;
  layout.roles = roles;
  layout.prepare();
  return layout;
}

runtime::Plan& plan_for(runtime::WorldState& world, const Problem& problem, const Split& split) {
  const Layout layout = world.checked([&] { return layout_on(world.device(), problem, split); });
  return world.plan(plan_key(problem, in_words(Layout::kRoles, layout.roles)), [&] { return spec_of(layout); });
}

// The plan outlives its launches, and so does its layout.
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const MoeDispatchGemmArgs& args) {
  RankView view = plan.view(rank);
  set_inputs(view, args.x, args.topk_idx, args.topk_weight);
  const Layout& layout = plan.layout<Layout>();
  if (world.device().kind() == DeviceKind::kCuda) {
    const Stream stream = runtime::is_default(args.stream) ? world.device().stream(rank) : args.stream;
    return launch_gpu(layout, view, plan, args, stream);
  }
  launch_bodies<HostBody>(world, view, layout, operands_of(args), args.w.dtype);
}

}  // namespace moe

void moe_dispatch_gemm(World& world, const MoeShape& shape, std::span<const MoeDispatchGemmArgs> args,
                       const MoeDispatchGemmOptions& options) {
  runtime::WorldState& state = world.state();
  const auto call = state.begin_call();
  const moe::Problem problem = state.checked([&] {
    const moe::Problem asked = moe::problem_of(state.shape(), state.members(), shape, args);
    moe::check_problem(asked, world.device());
    moe::check_args(asked, state.members(), args, world.device());
    return asked;
  });
  state.check_usable();
  const runtime::Plan& plan = moe::plan_for(state, problem, options.split);
  launch_every_rank(state, args,
                    [&](int rank, const MoeDispatchGemmArgs& own) { moe::launch_rank(state, plan, rank, own); });
}

int64_t moe_dispatch_gemm_workspace_bytes(const World& world, const MoeShape& shape, DType dtype) {
  const moe::Problem problem{world.state().shape(), shape, dtype};
  moe::check_problem(problem, world.device());
  return static_cast<int64_t>(
      runtime::workspace_bytes(moe::spec_of(moe::layout_on(world.state().device(), problem, {}))));
}

}  // namespace mk

// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_targets.h — the plan and the launch of one rank, for the public call, tools and tests.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/rank_view.h"
#include "ops/attention/ring_attention_layout.h"
#include "ops/attention/ring_attention_operands.h"
#include "ops/attention/ring_attention_problem.h"
#include "ops/split.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"

namespace mk::attention {

// The roles of a rank, by the caller's split or chosen.
Roster choose_roles(const Problem& problem, const Split& asked, const Seats& seats);
Cut cut_on(DeviceKind device, const Problem& problem, const Seats& seats);

// What a rank may count on of a GPU's L2, which holds 50 MiB: ranks that share the GPU share it, too.
constexpr int64_t l2_share(const Seats& seats) {
  constexpr int kSms = 132;
  return (int64_t{32} << 20) * std::min(seats.count, kSms) / kSms;
}

// Plans and launches some of the ranks: what ring_attention does for all.
runtime::Plan& plan_for(runtime::WorldState& world, const Problem& problem, const Split& split);
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const Problem& problem,
                 const RingAttentionArgs& args);

// What a rank's launch is given.  Its layout is that of the plan, with the strides of the rank's own keys and values.
template <class L, class Args>
L layout_for(const runtime::Plan& plan, const Args& args) {
  L layout = plan.layout<L>();
  layout.own_keys = strides_of(args.k);
  layout.own_values = strides_of(args.v);
  return layout;
}
RankView view_of(const runtime::Plan& plan, int rank, const RingAttentionArgs& args);
Operands operands_of(const Problem& problem, const RingAttentionArgs& args);

}  // namespace mk::attention

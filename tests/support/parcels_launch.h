// SPDX-License-Identifier: MIT
// tests/support/parcels_launch.h — the parcels operator in a World on CPUs: plan, launches, check.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "mkernel/world.h"
#include "ops/host_launch.h"
#include "ops/plan_spec.h"
#include "tests/support/parcels_data.h"

namespace mk::test {

inline constexpr std::byte kParcelPoison{0xa5};

// The ranks of a World that are here run `launches` launches, parcels::kKept of them queued at a time; all are checked.
inline testing::AssertionResult parcels_arrive(World& world, const parcels::Layout& layout, int launches,
                                               uint64_t seed) {
  runtime::WorldState& state = world.state();
  const parcels::Data data(layout.world, seed);
  const runtime::Members& members = state.members();
  runtime::Plan& plan = state.plan("parcels", [&] { return plan_spec(layout); });
  const uint64_t bytes = window_bytes(layout).back();
  for (uint64_t first = 1; first <= static_cast<uint64_t>(launches); first += parcels::kKept) {
    for (int rank = members.first; rank < members.end(); ++rank) {
      std::memset(plan.window(parcels::kReceivedWindow, rank), static_cast<int>(kParcelPoison), bytes);
    }
    std::map<std::pair<int, uint64_t>, std::pair<std::vector<std::byte>, std::vector<std::byte>>> inputs;
    for (uint64_t epoch = first; epoch < first + parcels::kKept; ++epoch) {
      for (int rank = members.first; rank < members.end(); ++rank) {
        auto& [rows, counts] = inputs[{rank, epoch}] = {data.rows(rank, epoch), data.counts(rank, epoch)};
        RankView view = plan.view(rank);
        view.windows.inputs[0] = rows.data();
        view.windows.inputs[1] = counts.data();
        launch_on_host(state, view, layout.roles,
                       [&layout](cpu::CpuMachine& m, const Post& post) { parcels::work(m, layout, post); });
      }
    }
    world.synchronize();
    for (int rank = members.first; rank < members.end(); ++rank) {
      const std::byte* const received = plan.window(parcels::kReceivedWindow, rank);
      for (uint64_t epoch = first; epoch < first + parcels::kKept; ++epoch) {
        const auto right = data.has_arrived(layout, rank, epoch, received, kParcelPoison);
        if (!right) return right;
      }
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace mk::test

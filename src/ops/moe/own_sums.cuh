// SPDX-License-Identifier: MIT
// ops/moe/own_sums.cuh — the consumers of a compute block sum tokens when there are no tiles left.
#pragma once

#include <cstdint>

#include "core/rank_view.h"
#include "ops/moe/moe_layer_protocol.h"
#include "target/sm90/ptx.cuh"
#include "target/sm90/sm90_machine.cuh"

namespace mk::moe {

struct SumsShared {
  uint32_t failed;    // of the warps that sum; zero at first
  uint32_t are_here;  // the results that they sum
};

enum class BlockBarrier { kResults = 1 };

// All consumers call this.  One of their warps waits for results: if all did, their looks at few words would hold up
// those who tell.  Then each warp takes tokens of its own.
template <class Config, AnyLayerLayout L, class Body>
__device__ void sum_own_tokens(const RankView& view, const L& layout, const Post& post, int worker, SumsShared& shared,
                               Body& body) {
  constexpr int kWarps = 4 * Config::kConsumers;
  const int warp = static_cast<int>(threadIdx.x) / 32 - 4;
  sm90::Sm90Machine<sm90::WarpCrew> machine(view, post, worker, {}, sm90::NoPace(), /*part=*/0, &shared.failed);
  if (warp == 0) {
    const bool are_here = wait_for_results(machine, layout);
    if (sm90::is_one_lane()) shared.are_here = are_here ? 1 : 0;
    __syncwarp();
  }
  sm90::sync_at(BlockBarrier::kResults, 32 * kWarps);
  if (shared.are_here != 0) {
    sum_tokens(machine, layout, {post.role, post.index * kWarps + warp, post.count * kWarps}, body);
  }
  machine.close();
}

}  // namespace mk::moe

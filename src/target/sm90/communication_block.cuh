// SPDX-License-Identifier: MIT
// target/sm90/communication_block.cuh — a block whose warps are communication workers.
#pragma once

#include <algorithm>

#include "core/rank_view.h"
#include "target/sm90/bulk_copier.cuh"
#include "target/sm90/communication_block.h"
#include "target/sm90/gemm_shared.cuh"
#include "target/sm90/sm90_machine.cuh"
#include "target/sm90/warp_crew.cuh"

namespace mk::sm90 {

// A ring of pieces for each worker, and one for the warp that serves puts where the pace asks for that; it also has
// those of workers that the block does not have.
constexpr size_t kCommunicationShared = (kCommunicationWorkersPerSm + 1) * sizeof(BulkPieces);

// What a block asks for, whichever kind it is; 1024 to align the whole to a swizzle atom.
template <class Config, class Element>
constexpr size_t kBlockShared = std::max(sizeof(GemmShared<Config, Element>), kCommunicationShared) + 1024;

// Every thread of a communication block calls this; warps that are workers call work(machine, post, pieces).
template <class Pace, class Work>
__device__ void communicate(const RankView& view, const RoleCounts& roles, const typename Pace::Setting& pace,
                            std::byte* memory, Work&& work) {
  const BlockWorkers own = workers_of(roles, static_cast<int>(blockIdx.x));
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool is_last = static_cast<int>(blockIdx.x) == communication_blocks(roles) - 1;  // it has the fewest workers
  const bool serves = Pace::kServesPuts && is_last && warp == kCommunicationWorkersPerSm;
  if (warp >= own.count && !serves) return;
  BulkPieces* const pieces = reinterpret_cast<BulkPieces*>(memory) + (serves ? own.count : warp);
  const int num_pieces = serves ? kCommunicationWorkersPerSm + 1 - own.count : 1;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < num_pieces) BulkCopier::prepare(pieces[lane]);
  __syncwarp();
  if (!serves) {
    const int worker = own.first + warp;
    const Post post = roles.post_of(worker);
    Sm90Machine<WarpCrew, Pace> machine(view, post, worker, pieces, Pace(pace));
    work(machine, post, *pieces);
    machine.close();
    if (lane == 0) Pace(pace).leave();
  }
  if constexpr (Pace::kServesPuts) {
    const uint64_t epoch = view.epoch_after(SystemAtomics::load_acquire(view.exits));
    if (serves) Pace(pace).serve_puts(pieces, num_pieces, epoch * roles.communicating());
  }
}

// The last act of a block, when all its threads have read the epoch and done their work.
__device__ inline void leave_block(const RankView& view, const RoleCounts& roles) {
  if (threadIdx.x == 0) SystemAtomics::add_relaxed(view.exits, workers_of(roles, static_cast<int>(blockIdx.x)).count);
}

}  // namespace mk::sm90

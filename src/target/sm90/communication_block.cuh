// SPDX-License-Identifier: MIT
// target/sm90/communication_block.cuh — how warps become communication workers: in blocks of their own, or beside the
// jobs of a compute block.
#pragma once

#include "core/rank_view.h"
#include "target/sm90/bulk_copier.cuh"
#include "target/sm90/communication_block.h"
#include "target/sm90/pipeline.cuh"
#include "target/sm90/sm90_machine.cuh"
#include "target/sm90/warp_crew.cuh"

namespace mk::sm90 {

// One warp is `worker`: it prepares its pieces and calls work(machine, post, pieces).
template <class Pace, class Work>
__device__ __forceinline__ void run_worker(const RankView& view, const Post& post, int worker,
                                           const typename Pace::Setting& pace, const BulkPieces& pieces, Work&& work) {
  const bool is_first_lane = threadIdx.x % 32 == 0;
  if (is_first_lane) BulkCopier::prepare(pieces);
  __syncwarp();
  Sm90Machine<WarpCrew, Pace> machine(view, post, worker, pieces, Pace(pace));
  work(machine, post, pieces);
  machine.close();
  if (is_first_lane) Pace(pace).leave();
}

// Every thread of a communication block calls this; warps that are workers call work(machine, post, pieces).  Where
// the pace asks for it a warp of the last block serves puts, with the buffers that its workers leave, if they leave
// any.
template <class Pace, class Work>
__device__ void run_communication_block(const RankView& view, const Roster& roles, const typename Pace::Setting& pace,
                                        std::byte* memory, Work&& work) {
  const BlockWorkers own = workers_of(roles, static_cast<int>(blockIdx.x));
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool is_last = static_cast<int>(blockIdx.x) == communication_blocks(roles) - 1;  // it has the fewest workers
  const bool has_buffers = own.count < BulkBuffers::kBuffers;
  const bool serves = Pace::kServesPuts && is_last && has_buffers && warp == kWorkersPerSm;
  if (warp >= own.count && !serves) return;
  BulkBuffers& buffers = *reinterpret_cast<BulkBuffers*>(memory);
  if (!serves) {
    run_worker<Pace>(view, roles.post_of(own.first + warp), own.first + warp, pace, buffers.pieces(warp), work);
  } else if constexpr (Pace::kServesPuts) {
    const BulkPieces pieces = buffers.joined(own.count);
    if (threadIdx.x % 32 == 0) BulkCopier::prepare(pieces);
    __syncwarp();
    const uint64_t epoch = view.epoch_after(SystemAtomics::load_acquire(view.exits));
    Pace(pace).serve_puts(pieces, epoch * (roles.total() - roles.num_compute()));
  }
}

// The last act of a block, when all its threads have read the epoch and done their work.
__device__ inline void leave_block(const RankView& view, const Roster& roles) {
  if (threadIdx.x == 0) SystemAtomics::tell_relaxed(view.exits, workers_of(roles, static_cast<int>(blockIdx.x)).count);
}

}  // namespace mk::sm90

// SPDX-License-Identifier: MIT
// target/sm90/pipeline.cuh — what jobs of a block need to hand work to each other, whatever they compute.
//
// A block's warps have jobs.  Between two jobs lies a queue of slots in shared memory, with a barrier `full` and a
// barrier `empty` for each slot; either side has a Cursor.  The one that fills waits for empty with the cursor's phase
// ^ 1, so that all slots are empty at first; the one that takes waits for full with the phase itself.  A block goes
// through
//
//   give_registers / take_registers    by whole warpgroups (ptx.cuh); registers_fit says how many
//   prepare                            one warp for each set of barriers
//   begin_jobs                         every thread: barriers are there, in all blocks of the cluster
//
// Config says kCluster: how many blocks share barriers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "target/sm90/ptx.cuh"

namespace mk::sm90 {

// Of dynamic shared memory for a block that is one of these.
template <class... Shared>
constexpr size_t kSharedFor = std::max({sizeof(Shared)...});

// A position in a queue of kSlots; only ++ moves it.
template <int kSlots>
struct Cursor {
  int slot = 0;
  uint32_t phase = 0;

  // After so many slots.
  __device__ static Cursor at(uint32_t taken) { return {static_cast<int>(taken % kSlots), taken / kSlots & 1}; }

  __device__ void operator++() {
    if (++slot == kSlots) {
      slot = 0;
      phase ^= 1;
    }
  }
};

// A whole warp calls this before begin_jobs; init() initialises barriers, in one lane.
template <class Init>
__device__ void prepare(Init&& init) {
  if (is_one_lane()) {
    init();
    barriers_before_use();
  }
  __syncwarp();
}

// Every thread of the block comes here before it uses what another thread prepared, here or in another block.
// A warp that has something to do meanwhile has the same in two halves: prepared, when it has prepared its own
// barriers, and wait_for_prepared, before it uses what others have.
template <class Config>
__device__ void begin_jobs() {
  if constexpr (Config::kCluster > 1) {
    arrive_at_cluster();
    wait_for_cluster();
  } else {
    __syncthreads();
  }
}
template <class Config>
__device__ void prepared() {
  if constexpr (Config::kCluster > 1) arrive_at_cluster();
}
template <class Config>
__device__ void wait_for_prepared() {
  if constexpr (Config::kCluster > 1) {
    wait_for_cluster();
  } else {
    __syncthreads();
  }
}

// Whether a first warpgroup may give registers, down to `given` a thread, so that each of the consumers has `taken`:
// all threads of the block start with equally many, in steps of 8, and the block never has more than that.  If it asked
// for more, its consumers would wait for ever.
constexpr bool registers_fit(int given, int consumers, int taken) {
  constexpr int kOfAThreadInEach = 65536 / 128;
  const int at_start = kOfAThreadInEach / (1 + consumers) / 8 * 8;
  return given % 8 == 0 && taken % 8 == 0 && given >= 24 && taken <= 256 && given <= at_start && taken >= at_start &&
         given + consumers * taken <= at_start * (1 + consumers);
}

}  // namespace mk::sm90

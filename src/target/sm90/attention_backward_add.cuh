// SPDX-License-Identifier: MIT
// target/sm90/attention_backward_add.cuh — the backward engine's add job: a warp adds a block's sums to those in
// memory.
//
// The bulk copy engine adds, in the L2.  A caller gives a type `Turns` with
//
//   bool wait(const BlockNote&)     until it is this visit's turn to add to the block; false: it will not come
//   void done(const BlockNote&)     the sums are in memory, visible to this thread
//
// The first addition to a block stores.
//
// One lane calls them.  After wait() returned false, nobody is called any more and nothing is added.
#pragma once

#include "target/sm90/attention_backward_shared.cuh"

namespace mk::sm90 {

template <class Config, class Element, class Turns>
class AttentionAddJob {
 public:
  // sums: of all blocks, Config::kBlockFloats of each.  adder: which of the warps this is.
  __device__ AttentionAddJob(AttentionBackwardShared<Config, Element>& shared, float* sums, Turns& turns, int adder)
      : shared_(shared), sums_(sums), turns_(turns), adder_(adder), block_(adder) {}

  // Until the load job's last note.  The whole warp calls this.
  __device__ void run() {
    if (is_one_lane()) {
      while (add_next()) {
      }
    }
    __syncwarp();
  }

 private:
  using Shared = AttentionBackwardShared<Config, Element>;

  __device__ bool add_next() {
    const auto at = Cursor<Shared::kNotes>::at(block_);
    wait_phase(&shared_.note_full[at.slot], at.phase);
    const BlockNote note = shared_.notes[at.slot];
    if (note.block == BlockNote::kNoMore) return false;
    is_void_ = is_void_ || !turns_.wait(note);  // while the products are made
#pragma unroll 1
    for (int round = 0; round < Config::kRounds; ++round) {
      const uint32_t phase = (block_ / kAdders * Config::kRounds + round) & 1;
      const int buffer = (block_ * Config::kRounds + round) % Config::kSumBuffers;
#pragma unroll 1
      for (int consumer = 0; consumer < Config::kConsumers; ++consumer) {
        wait_phase(&shared_.sum_full[adder_][consumer], phase);
        if (!is_void_) add_part(note, consumer, round, shared_.sums[buffer][consumer]);
      }
      ptx::cp_async_bulk_commit_group();
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
      for (uint64_t& empty : shared_.sum_empty[buffer]) ptx::mbarrier_arrive(&empty);
    }
    ptx::mbarrier_arrive(&shared_.note_empty[at.slot]);
    if (!is_void_) {
      ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
      turns_.done(note);
    }
    block_ += kAdders;
    return true;
  }

  __device__ void add_part(const BlockNote& note, int consumer, int round, const float* from) {
    constexpr uint32_t kBytes = sizeof(float) * Config::kPartFloats;
    const int part = consumer * Config::kRounds + round;
    float* const to = sums_ + static_cast<int64_t>(note.block) * Config::kBlockFloats + part * Config::kPartFloats;
    if (note.turn == 0) {
      ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, to, from, kBytes);
    } else {
      ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, to, from, kBytes);
    }
  }

  Shared& shared_;
  float* const sums_;
  Turns& turns_;
  const int adder_;
  uint32_t block_;  // of all that the load job notes
  bool is_void_ = false;
};

}  // namespace mk::sm90
